// Dump queries before and after the rotation of a candle model; q is (batch, heads, L, D).
fn dump(q_before: &candle_core::Tensor, q_after: &candle_core::Tensor) -> candle_core::Result<()> {
    let tensors = std::collections::HashMap::from([
        ("q_before".to_string(), q_before.clone()),
        ("q_after".to_string(), q_after.clone()),
    ]);
    candle_core::safetensors::save(&tensors, "dump.safetensors")
}

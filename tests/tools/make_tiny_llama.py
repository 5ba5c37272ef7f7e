"""Makes the folders of tiny_llama: one random Llama in every form that people have one in.

    pip install torch==2.13.0 transformers==5.22.2 onnx==1.23.2 onnxscript safetensors
    python make_tiny_llama.py

Its inv_freq is a buffer that is saved, as in checkpoints of transformers before 4.32.
"""

from pathlib import Path

HERE = Path(__file__).parents[1] / "files/data/tiny_llama"
SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}


def main() -> None:
    import onnx
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 131072}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, rope_parameters=SCALING, use_cache=False)).eval()
    rotary = model.model.rotary_emb
    rotary.register_buffer("inv_freq", rotary.inv_freq, persistent=True)
    model.save_pretrained(HERE / "one_file")
    model.save_pretrained(HERE / "shards", max_shard_size="10KB")
    for name in ("bin", "onnx", "onnx_external"):
        (HERE / name).mkdir(exist_ok=True)
        model.config.save_pretrained(HERE / name)
    torch.save(model.state_dict(), HERE / "bin" / "pytorch_model.bin")
    tokens = torch.zeros(1, 4, dtype=torch.long)
    plain = {"optimize": False, "external_data": False}  # optimised, cos and sin of four positions are all that is left
    torch.onnx.export(model, (tokens,), HERE / "onnx" / "model.onnx", **plain)
    exported = onnx.load(HERE / "onnx" / "model.onnx")
    for node in exported.graph.node:
        del node.metadata_props[:]  # the exporter's stack traces
    exported.graph.ClearField("value_info")
    onnx.save(exported, HERE / "onnx" / "model.onnx")
    external = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 0}
    onnx.save(exported, HERE / "onnx_external" / "model.onnx", **external)
    for extra in HERE.glob("*/generation_config.json"):
        extra.unlink()
    for file in HERE.glob("*/*"):
        file.chmod(0o644)


if __name__ == "__main__":
    main()

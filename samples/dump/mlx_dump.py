"""Dump queries before and after the rotation of an MLX model; q is (batch, heads, L, D)."""


def dump(q_before, q_after, path="dump.npz"):
    import mlx.core as mx

    mx.savez(path, q_before=q_before.astype(mx.float32), q_after=q_after.astype(mx.float32))

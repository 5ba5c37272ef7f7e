"""Makes tiny.gguf with gguf 0.19.0, llama.cpp's package: tensors of every float type, and one that is quantised."""

from pathlib import Path


def main() -> None:
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(Path(__file__).parents[1] / "files/data/tiny.gguf", "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(16)
    writer.add_head_count(2)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(500000.0)
    writer.add_token_list([f"token {number}" for number in range(100)])
    writer.add_tensor("rope_freqs.weight", np.array([1, 2, 4, 8], np.float32))
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    writer.add_tensor("matrix", table)
    writer.add_tensor("half", table.astype(np.float16))
    bfloat16 = gguf.GGMLQuantizationType.BF16
    writer.add_tensor("brain", gguf.quantize(table, bfloat16), raw_dtype=bfloat16)
    q4 = gguf.GGMLQuantizationType.Q4_0
    writer.add_tensor("blk.0.attn_q.weight", gguf.quantize(np.ones((2, 32), np.float32), q4), raw_dtype=q4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

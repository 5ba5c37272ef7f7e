"""Make the data files of the tests that come from other projects.

    python -m tests.tools.make_data [NAME …]

    pip install torch==2.13.0 transformers==5.22.2 onnx==1.23.2 onnxscript safetensors gguf==0.19.0
    pip install diffusers==0.42.1 positional-encodings==6.0.3 timm==1.0.30 rotary-embedding-torch==0.9.1  # for styles

Without a name it makes all of them. They were made on the CPU (torch_powers on x86-64 with AVX-512).
The tests need none of these packages.
"""

import base64
import importlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1]
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def rotary(config: Any) -> tuple[Any, Any]:
    """Return the module of transformers that defines a model, and its rotary embedding."""
    family = config.model_type.removesuffix("_text")
    file = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    name = next(
        name for name in dir(file) if name.endswith("RotaryEmbedding") and "Vision" not in name
    )
    return file, getattr(file, name)(config)


def rounded(values: Any) -> list[float]:
    """Return the numbers of a tensor in nine digits, which float32 can be read back from."""
    return [float(f"{value:.9g}") for value in values.flatten().tolist()]


def golden_transformers() -> None:
    """Write cosines and sines of presets by transformers' own rotary modules, in float32.

    There is one column per frequency, and a row for each position of the golden suite's models.
    Presets whose module takes other arguments are left out.
    """
    import torch
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from pecli.golden import DATA, FAR_AND_NEAR
    from pecli.models.presets import presets

    lines = []
    for preset in DATA["presets"]:
        given = dict(presets()[preset].config)
        try:
            _, module = rotary(CONFIG_MAPPING[given.pop("model_type")](**given).get_text_config())
            pairs = len(module.inv_freq)
        except (AttributeError, KeyError, StopIteration) as problem:
            print(f"{preset}: left out, {problem}")
            continue
        made = {}
        for part, (rows,) in zip(
            ("cos", "sin"), module(torch.zeros(1), torch.tensor([FAR_AND_NEAR])), strict=True
        ):
            halves = rows.shape[1] == pairs or torch.equal(rows[:, :pairs], rows[:, pairs:])
            made[part] = rounded(rows[:, :pairs] if halves else rows[:, ::2])
        lines.append(f'"{preset}": {json.dumps(made)}')
    (TESTS / "golden_transformers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def interpolate() -> None:
    """Write learned tables that torch resized.

    Grids of one row are left out: torch makes constant columns of them with antialias.
    """
    import torch
    from torch.nn.functional import interpolate

    cases = []

    def add(given: Any, made: Any, **case: Any) -> None:
        for name, array in (("given", given[0].movedim(0, -1)), ("made", made[0].movedim(0, -1))):
            case[name] = base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()
        cases.append(case)

    grids = (
        ((14, 14), (24, 24)),
        ((24, 24), (14, 14)),
        ((7, 5), (3, 11)),
        ((2, 3), (9, 2)),
        ((16, 16), (16, 16)),
    )
    for number, (old, new) in enumerate(grids):
        torch.manual_seed(number)
        grid = torch.randn(1, 2, *old) * 0.02
        for mode in ("bilinear", "bicubic"):
            for antialias in (False, True):
                made = interpolate(
                    grid, size=new, mode=mode, align_corners=False, antialias=antialias
                )
                add(grid, made, mode=mode, antialias=antialias, old=old, new=new)
    for old_length, new_length in ((50, 128), (128, 50), (3, 4)):
        rows = torch.randn(1, 2, old_length) * 0.02
        sizes = {"old": (old_length, 1), "new": (new_length, 1)}
        for align_corners in (False, True):
            made = interpolate(rows, size=new_length, mode="linear", align_corners=align_corners)
            add(rows, made, mode="linear", antialias=False, align_corners=align_corners, **sizes)
    for number, (old, new) in enumerate((((5, 6), (9, 8)), ((9, 8), (5, 6)))):
        torch.manual_seed(100 + number)
        grid = torch.randn(1, 2, *old) * 0.02
        for mode, antialias in itertools.product(("bilinear", "bicubic"), (False, True)):
            case = {"mode": mode, "antialias": antialias}
            for align_corners in (False, True):
                made = interpolate(grid, size=new, **case, align_corners=align_corners)
                add(grid, made, **case, align_corners=align_corners, old=old, new=new)
            # As DINO does: a scale factor, with 0.1 added to the new size.
            factors = tuple((size + 0.1) / side for size, side in zip(new, old, strict=True))
            made = interpolate(grid, scale_factor=factors, **case)
            add(grid, made, **case, scale_offset=0.1, old=old, new=new)
        made = interpolate(grid, size=new, mode="nearest")
        add(grid, made, mode="nearest", antialias=False, old=old, new=new)
    rows = ",\n".join(f"    {json.dumps(case)}" for case in cases)
    text = f'{{\n  "torch": "{torch.__version__}",\n  "cases": [\n{rows}\n  ]\n}}\n'
    (TESTS / "tensors/interpolate.json").write_text(text, encoding="ascii")


POSITIONS = [0, 1, 2, 31, 100, 4097]
SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 1024,
    "rope_theta": 10000.0,
}
ROTATED: list[tuple[str, dict[str, Any]]] = [
    ("llama", {**SMALL, "head_dim": 16}),
    ("llama", {**SMALL, "head_dim": 16, "rope_parameters": YARN}),
    ("gpt_neox", {"hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1}),
    ("cohere", {**SMALL}),
    ("glm", {**SMALL, "head_dim": 16}),
    ("deepseek_v3", {**SMALL, "qk_rope_head_dim": 16, "qk_nope_head_dim": 8}),
    ("gpt_oss", {**SMALL, "head_dim": 16}),
]
KEPT = """
    model_type hidden_size num_attention_heads head_dim rope_parameters max_position_embeddings qk_rope_head_dim
    qk_nope_head_dim kv_lora_rank rope_interleave partial_rotary_factor
"""


def queries(heads: int, rows: int, dim: int) -> list[list[list[float]]]:
    """Return numbers without a pattern that float32 holds exactly; the test makes the same."""
    count = iter(range(heads * rows * dim))
    return [
        [[(next(count) * 37 % 101 - 50) / 32 for _ in range(dim)] for _ in range(rows)]
        for _ in range(heads)
    ]


def rotated() -> None:
    """Write queries that the rotary code of transformers' models rotated.

    GPT-J has no rotary module: it makes its table itself.
    """
    import torch
    from transformers import AutoConfig
    from transformers.models.gptj.modeling_gptj import (
        apply_rotary_pos_emb,
        create_sinusoidal_positions,
    )

    def line(config: dict[str, Any], made: Any) -> str:
        row = {
            "config": config,
            "positions": POSITIONS,
            "shape": list(made.shape),
            "rotated": rounded(made),
        }
        return json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n"

    lines = []
    for family, settings in ROTATED:
        config = AutoConfig.for_model(family, **settings)
        module, embedding = rotary(config)
        function = "apply_rotary_pos_emb"
        if family == "deepseek_v3":
            function = "apply_rotary_pos_emb_interleave"
        width = config.hidden_size // config.num_attention_heads
        dim = settings.get("qk_rope_head_dim") or getattr(config, "head_dim", None) or width
        q = torch.tensor([queries(2, len(POSITIONS), dim)], dtype=torch.float32)
        made, _ = getattr(module, function)(q, q, *embedding(q, torch.tensor([POSITIONS])))
        saved = json.loads(config.to_json_string())
        lines.append(
            line({key: saved[key] for key in KEPT.split() if saved.get(key) is not None}, made)
        )
    rotated_dim, dim = 8, 16
    table = create_sinusoidal_positions(max(POSITIONS) + 1, rotated_dim)[torch.tensor([POSITIONS])]
    sin, cos = torch.split(table, rotated_dim // 2, dim=-1)
    rows = torch.tensor([queries(2, len(POSITIONS), dim)], dtype=torch.float32).permute(0, 2, 1, 3)
    made = torch.cat(
        [apply_rotary_pos_emb(rows[..., :rotated_dim], sin, cos), rows[..., rotated_dim:]], dim=-1
    )
    gptj = {
        "model_type": "gptj",
        "n_embd": 64,
        "n_head": 4,
        "rotary_dim": rotated_dim,
        "n_positions": 2048,
    }
    (TESTS / "tensors/data/rotated.jsonl").write_text(
        "".join([*lines, line(gptj, made.permute(0, 2, 1, 3))])
    )


def styles() -> None:
    """Write small tables on grids by other libraries' own code.

    Complex numbers and 2 × 2 matrices are kept as they are. A key is NAME/TENSOR; styles.json beside
    the file has the command that makes each.
    """
    import torch
    from positional_encodings.torch_encodings import PositionalEncoding2D, PositionalEncoding3D
    from rotary_embedding_torch import RotaryEmbedding
    from timm.layers.pos_embed_sincos import build_rotary_pos_embed
    from torchtune.modules.position_embeddings import VisionRotaryPositionalEmbeddings
    from transformers.models.kimi_k25 import modeling_kimi_k25
    from transformers.models.sam2_video import modeling_sam2_video

    def of(file: str, name: str) -> Any:
        return getattr(
            importlib.import_module(f"diffusers.models.transformers.transformer_{file}"), name
        )

    def grid(*sizes: int) -> Any:
        return torch.cartesian_prod(*map(torch.arange, sizes))

    def latents(*shape: int) -> Any:
        return torch.zeros(1, 1, *shape)

    cpu = torch.device("cpu")
    z_grid = of("z_image", "ZImageTransformer2DModel").create_coordinate_grid
    after_text = torch.cat(
        [z_grid((1, 4, 5), (33, 0, 0)).flatten(0, 2), z_grid((32, 1, 1), (1, 0, 0)).flatten(0, 2)]
    )
    hidream_ids = torch.zeros(1, 22, 3)
    hidream_ids[0, :20, 1:] = grid(4, 5)
    lumina = of("lumina2", "Lumina2RotaryPosEmbed")(10000, [8, 8, 8], [32, 32, 32], patch_size=1)
    qwen_mask = torch.tensor([False] * 3 + [True] * 20)
    video = latents(3, 4, 5)
    ltx = of("ltx", "LTXVideoRotaryPosEmbed")(32)
    ltx2 = of("ltx2", "LTX2AudioVideoRotaryPosEmbed")(32)
    split = of("ltx2", "LTX2AudioVideoRotaryPosEmbed")(32, rope_type="split", num_attention_heads=2)
    kimi = modeling_kimi_k25.Kimi_K25VisionConfig(hidden_size=64, num_attention_heads=2)
    sizes = {"hidden_size": 32, "num_attention_heads": 1, "rope_feat_sizes": [5, 4]}
    sam = modeling_sam2_video.Sam2VideoConfig(
        **{f"memory_attention_{key}": value for key, value in sizes.items()}
    )
    memory = modeling_sam2_video.Sam2VideoMemoryAttention(sam)
    qwen = of("qwenimage", "QwenEmbedRope")(10000, [4, 14, 14], scale_rope=True)
    cosmos = of("cosmos", "CosmosRotaryPosEmbed")
    axes = [torch.arange(size) for size in (3, 4, 5)]
    pixel = RotaryEmbedding(dim=16, freqs_for="pixel", max_freq=10).get_axial_freqs(4, 6)
    timm_pixel = build_rotary_pos_embed(
        [4, 6], dim=32, max_res=224, linear_bands=False, in_pixels=True
    )
    made = {
        "flux2": of("flux2", "Flux2PosEmbed")(2000, [8] * 4)(
            torch.cat([grid(1, 1, 1, 3), grid(1, 4, 5, 1)])
        ),
        "z-image": of("z_image", "RopeEmbedder")(256.0, [8, 12, 12], [64, 16, 16])(after_text),
        "lumina2": lumina(latents(4, 5), torch.ones(1, 3, dtype=torch.int32))[3],
        "hidream": of("hidream_image", "HiDreamImageEmbedND")(10000, [16, 8, 8])(hidream_ids),
        "qwen-image-2.1": of("qwenimage21", "QwenImage21Rope")(10000, [4, 14, 14])(
            [(1, 4, 5)], qwen_mask, cpu
        ),
        "qwen-image": qwen([(1, 4, 5)], cpu, max_txt_seq_len=1)[0],
        "sam2": memory.rotary_emb(torch.zeros(1), memory.position_ids),
        "ltx": ltx(torch.zeros(1, 60, 1), 3, 4, 5, rope_interpolation_scale=(8 / 25, 32, 32)),
        "ltx2": ltx2(ltx2.prepare_video_coords(1, 3, 4, 5, cpu)),
        "ltx2-split": tuple(
            each[0].transpose(0, 1).flatten(1)
            for each in split(ltx2.prepare_video_coords(1, 3, 4, 5, cpu))
        ),
        "moonvit": modeling_kimi_k25.Kimi_K25VisionRotaryEmbedding(kimi)(
            torch.zeros(1), grid(4, 5)
        ),
        "torchtune": VisionRotaryPositionalEmbeddings(1, 4, 32).cache.unbind(-1),
        "kandinsky5": of("kandinsky", "Kandinsky5RoPE3D")([8, 12, 12])(
            (1, 3, 4, 5), axes, (1.0, 2.0, 2.0)
        ),
        "pixel": (pixel.cos(), pixel.sin()),
        "timm-pixel": timm_pixel[::-1],
        "cogview4": of("cogview4", "CogView4RotaryPosEmbed")(32, 1, (256, 256))(latents(4, 7)),
        "glm-image": of("glm_image", "GlmImageRotaryPosEmbed")(32, 1)(latents(4, 7)),
        "hunyuan-image": of("hunyuanimage", "HunyuanImageRotaryPosEmbed")([1, 1], [16, 16])(
            latents(4, 7)
        ),
        "hunyuan-video-1.5": of("hunyuan_video15", "HunyuanVideo15RotaryPosEmbed")(
            1, 1, [4, 14, 14]
        )(video),
        "cosmos": cosmos(32, patch_size=(1, 1, 1))(video),
        "cosmos-fps": cosmos(32, patch_size=(1, 1, 1), rope_scale=(1.0, 3.0, 3.0))(video, fps=12),
        "wan-animate": of("wan_animate", "WanRotaryPosEmbed")(32, (1, 1, 1), 64)(video),
        "skyreels-v2": of("skyreels_v2", "SkyReelsV2RotaryPosEmbed")(32, (1, 1, 1), 64)(video),
        "positional-encodings-2d": PositionalEncoding2D(32)(torch.zeros(1, 4, 5, 32)),
        "positional-encodings-3d": PositionalEncoding3D(32)(torch.zeros(1, 3, 4, 5, 32)),
    }
    arrays = {}
    for name, table in made.items():
        if isinstance(table, (tuple, list)):
            for part, values in zip(("cos", "sin"), table, strict=True):
                arrays[f"{name}/{part}"] = np.asarray(values.squeeze().flatten(0, -2))
        elif table.is_complex():
            arrays[f"{name}/freqs_cis"] = np.asarray(table.squeeze()).astype(np.complex64)
        elif table.shape[-2:] == (2, 2):
            arrays[f"{name}/rotation"] = np.asarray(table.squeeze().flatten(0, -4)).astype(
                np.float32
            )
        else:
            arrays[f"{name}/pe"] = np.asarray(table.squeeze(0).flatten(0, -2))
    np.savez_compressed(TESTS / "engine/schemes/data/styles.npz", **arrays)


def tiny_gguf() -> None:
    """Write a .gguf file with tensors of every float type, and one that is quantised."""
    import gguf

    writer = gguf.GGUFWriter(TESTS / "files/data/tiny.gguf", "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(16)
    writer.add_head_count(2)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(500000.0)
    writer.add_token_list([f"token {number}" for number in range(100)])
    kinds = gguf.GGMLQuantizationType
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, array, kind in (
        ("rope_freqs.weight", np.array([1, 2, 4, 8], np.float32), kinds.F32),
        ("matrix", table, kinds.F32),
        ("half", table, kinds.F16),
        ("brain", table, kinds.BF16),
        ("blk.0.attn_q.weight", np.ones((2, 32), np.float32), kinds.Q4_0),
    ):
        writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_llama() -> None:
    """Write one random Llama in every format that checkpoints have.

    Its inv_freq is saved, as by transformers before 4.32.
    """
    import onnx
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    here = TESTS / "files/data/tiny_llama"
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 131072}
    parameters = {**LLAMA3, "rope_theta": 500000.0}
    model = LlamaForCausalLM(
        LlamaConfig(**sizes, **heads, rope_parameters=parameters, use_cache=False)
    ).eval()
    rotary = model.model.rotary_emb
    rotary.register_buffer("inv_freq", rotary.inv_freq, persistent=True)
    model.save_pretrained(here / "one_file")
    model.save_pretrained(here / "shards", max_shard_size="10KB")
    for name in ("bin", "onnx", "onnx_external"):
        (here / name).mkdir(exist_ok=True)
        model.config.save_pretrained(here / name)
    torch.save(model.state_dict(), here / "bin" / "pytorch_model.bin")
    tokens = torch.zeros(1, 4, dtype=torch.long)
    # The optimiser would leave only the cosines and sines of four positions.
    plain = {"optimize": False, "external_data": False}
    torch.onnx.export(model, (tokens,), here / "onnx" / "model.onnx", **plain)
    exported = onnx.load(here / "onnx" / "model.onnx")
    for node in exported.graph.node:
        del node.metadata_props[:]  # the exporter's stack traces
    exported.graph.ClearField("value_info")
    onnx.save(exported, here / "onnx" / "model.onnx")
    external = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 0}
    onnx.save(exported, here / "onnx_external" / "model.onnx", **external)
    for extra in here.glob("*/generation_config.json"):
        extra.unlink()
    for file in here.glob("*/*"):
        file.chmod(0o644)


def torch_powers() -> None:
    """Write powers of bases in float32, whose last bits depend on torch's own pow."""
    import torch

    powers = {}
    for base in (0.5, 7.7, 25000.3, 77123.25, 150000.0, 1e20):
        for dim in (6, 64, 80, 256):
            exponents = torch.arange(0, dim, 2).float() / dim
            powers[f"{base!r},{dim}"] = (base**exponents).numpy()
    np.savez_compressed(TESTS / "engine/numerics/torch_powers.npz", **powers)


FAR_POSITIONS = [0, 1, 2, 255, 257, 4095, 131071, 1048575, 16777217]
FAR_YARN = {"rope_type": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048}
GPT_OSS = {**FAR_YARN, "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
FACTORS = {
    "short_factor": [1.0 + k / 7 for k in range(16)],
    "long_factor": [1.0 + k * 1.7 for k in range(16)],
}
ROPES: list[tuple[int, float, dict[str, Any]]] = [
    (128, 10000.0, {}), (64, 500000.0, {}), (96, 1e6, {}), (64, 10000.0, {"rope_type": "linear", "factor": 3.0}),
    (128, 10000.0, FAR_YARN), (64, 150000.0, GPT_OSS), (32, 10000.0, {**FAR_YARN, "rope_type": "longrope", **FACTORS}),
    (32, 1e6, {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 3.0}), (128, 500000.0, LLAMA3),
]  # fmt: skip


def torch_rope() -> None:
    """Write what transformers' own rotary embedding computes: bits of float32 in hexadecimal."""
    import torch
    from transformers import LlamaConfig

    def hexadecimal(values: Any) -> list[str]:
        return [
            f"{int(bits) & 0xFFFFFFFF:08x}"
            for bits in values.contiguous().view(torch.int32).flatten()
        ]

    cases = []
    for dim, base, scaling in ROPES:
        parameters = {"rope_type": "default", "rope_theta": base, **scaling}
        sizes = {"hidden_size": dim, "num_attention_heads": 1, "max_position_embeddings": 20480}
        _, layer = rotary(LlamaConfig(**sizes, rope_parameters=parameters))
        tables = layer(torch.zeros(1, dtype=torch.float32), torch.tensor([FAR_POSITIONS]))
        cos, sin = ([hexadecimal(row) for row in table[0, :, : dim // 2]] for table in tables)
        row = {
            "dim": dim,
            "base": base,
            "scaling": scaling,
            "inv_freq": hexadecimal(layer.inv_freq),
        }
        cases.append({**row, "cos": cos, "sin": sin})
    text = json.dumps({"positions": FAR_POSITIONS, "cases": cases})
    text = text.replace('[["', '[\n["').replace('"], ["', '"],\n["').replace("}, {", "},\n{")
    (TESTS / "engine/schemes/torch_rope.json").write_text(text + "\n")


def torch_views() -> None:
    """Write a file of torch's with tensors that share, slice and repeat storages."""
    import torch

    numbers = torch.arange(24.0)
    views = {
        "matrix": numbers.reshape(4, 6),
        "transposed": numbers.reshape(4, 6).T,
        "permuted": numbers.reshape(2, 3, 4).permute(1, 0, 2),
        "sliced": numbers.reshape(4, 6)[1:, ::2],
        "every_third": numbers[::3],
        "expanded": numbers[:3].expand(5, 3),
        "scalar": numbers[7],
        "empty": numbers.reshape(4, 6)[:, :0],
        "parameter": torch.nn.Parameter(numbers[:2].clone()),
        "nested": {"list": [numbers[:1].double(), numbers[1:2].half()], 3: numbers[2:4].bfloat16()},
        "bool": numbers[:3] > 1,
        "complex": numbers[:2] * 1j,
        "uint16": numbers[:2].to(torch.uint16),
        "float8": numbers[:2].to(torch.float8_e4m3fn),
        "beside": [
            None,
            True,
            1.5,
            -5,
            10**30,
            "text",
            torch.float32,
            torch.device("cpu"),
            torch.Size([1]),
        ],
    }
    torch.save(views, TESTS / "files/data/torch_views.pt")


MAKERS = {
    make.__name__: make
    for make in (
        golden_transformers,
        interpolate,
        rotated,
        styles,
        tiny_gguf,
        tiny_llama,
        torch_powers,
        torch_rope,
        torch_views,
    )
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()

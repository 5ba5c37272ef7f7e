"""Makes torch_views.pt, what torch 2.13.0 saves of tensors that share, slice and repeat storages."""

from pathlib import Path


def main() -> None:
    import torch

    numbers = torch.arange(24.0)
    torch.save(
        {
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
            "beside": [None, True, 1.5, -5, 10**30, "text", torch.float32, torch.device("cpu"), torch.Size([1])],
        },
        Path(__file__).parents[1] / "files/data/torch_views.pt",
    )


if __name__ == "__main__":
    main()

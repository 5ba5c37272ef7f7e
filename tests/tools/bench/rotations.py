"""Turning queries and keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import timing
from timing import Row, Work, against_first, best

import pecli
from pecli.engine import application


def rotating(turns: int) -> list[Row]:
    """(1, 32, 4096, 128) float32 into memory that is there already; torch, as Hugging Face writes it, makes its own."""
    x = np.random.default_rng(0).standard_normal((1, 32, 4096, 128)).astype(np.float32)
    target = np.empty_like(x)
    tables = pecli.Rope(4096, 128).tables()
    factors = (tables["cos"] + 1j * tables["sin"]).astype(np.complex64)

    def copy_in_threads() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(np.copyto, (target[0, :16], target[0, 16:]), (x[0, :16], x[0, 16:])))

    def pecli_turn(layout: str) -> Work:
        return lambda: application.rotate(x, lambda start, stop: factors[start:stop], layout, layout, out=target)

    works: dict[str, Work] = {
        "memcpy, 2 threads": copy_in_threads,
        "memcpy, 1 thread": lambda: np.copyto(target, x),
        "pecli, interleaved": pecli_turn("interleaved"),
        "pecli, halves": pecli_turn("halves"),
    }
    return against_first(best(works | torch_rotations(x, tables), 3 * turns), of_first=True)


def torch_rotations(x: np.ndarray, tables: dict[str, np.ndarray]) -> dict[str, Work]:
    if not (torch := timing.torch()):
        return {}
    q, room = torch.from_numpy(x), torch.empty(x.shape)
    cos, sin = (torch.from_numpy(np.concatenate([tables[name]] * 2, axis=1)) for name in ("cos", "sin"))
    factors = torch.complex(cos[:, :64].contiguous(), sin[:, :64].contiguous())

    def halves() -> object:
        turned = torch.cat((-q[..., 64:], q[..., :64]), dim=-1)
        return (q * cos) + (turned * sin)

    def complex_product() -> object:
        pairs, into = (torch.view_as_complex(each.view(*x.shape[:-1], 64, 2)) for each in (q, room))
        return torch.mul(pairs, factors, out=into)

    return {
        "torch, interleaved, as a complex product": complex_product,
        "torch, halves, as Hugging Face writes it": halves,
    }

"""Which results depend on which operands: against changing single elements and executing."""

from __future__ import annotations

import numpy as np
import pytest

from firmware_sim import chip
from firmware_sim.checks.influence import Marked, influenced
from firmware_sim.instructions.table import BY_NAME
from firmware_sim.isa.footprint import Access, Space, Tensor
from firmware_sim.memory import Memory
from tests.support.check_batches import row_of

SMALL = {
    f"{name}_{axis}": n for name in ("res0", "opd0") for axis, n in zip("nchw", (2, 3, 4, 5), strict=True)
}
WINDOW = {**SMALL, "opd0_h": 6, "opd0_w": 7, "res0_h": 4, "res0_w": 5, "opd1_h": 3, "opd1_w": 3}
WINDOW |= {f"opd0_{side}_pad": 0 for side in ("up", "dn", "lf", "rt")}
STRIDED = {**WINDOW, "opd0_up_pad": 1, "res_op_y_str": 2, "res_op_x_str": 3, "res0_h": 3, "res0_w": 2}
DILATED = {**WINDOW, "opd1_y_ins0": 1, "opd1_h": 2, "opd0_lf_pad": 2, "opd1_x_ins0": 2, "res0_w": 3}
INSERTED = {**WINDOW, "opd0_y_ins0": 1, "opd0_x_ins0": 1, "res0_h": 9, "res0_w": 11}
PRODUCT = {
    "opd0_n": 4,
    "opd0_c": 2,
    "opd0_w": 3,
    "opd1_w": 2,
    "res0_n": 4,
    "res0_c": 2,
    "res0_h": 1,
    "res0_w": 4,
}
TURNED = {**PRODUCT, "opt_left_tran": 1, "res0_n": 5, "opd1_n": 4}
COPY = {
    f"{side}_{axis}size": n for side in ("src", "dst") for axis, n in zip("nchw", (2, 3, 4, 5), strict=True)
}
COPY |= {
    f"{side}_{axis}stride": n for side in ("src", "dst") for axis, n in zip("nch", (128, 32, 5), strict=True)
}
NC = {**COPY, "dst_nsize": 3, "dst_csize": 2}
CW = {
    **COPY,
    "src_nsize": 1,
    "dst_nsize": 1,
    "src_hsize": 1,
    "dst_hsize": 1,
    "dst_csize": 5,
    "dst_wsize": 3,
    "src_nstride": 32,
    "dst_nstride": 32,
}

CASES = {
    "ar.add": SMALL,
    "ar.mac": SMALL,
    "md_scalar.mul": SMALL,
    "md_linear.mac": SMALL,
    "md_cmp.max": SMALL,
    "md_sum": SMALL,
    "md_sfu.rsqrt": SMALL,
    "conv.fp32": WINDOW,
    "conv.fp32 strided": STRIDED,
    "conv.fp32 dilated": DILATED,
    "conv.fp32 inserted": INSERTED,
    "depthwise.fp32": WINDOW,
    "depthwise.fp32 strided": STRIDED,
    "max_pool.fp32": WINDOW,
    "matmul.fp32": PRODUCT,
    "gdma.copy.l2l": COPY,
    "gdma.transpose_nc.l2l": NC,
    "gdma.transpose_cw": CW,
}
UPPER_BOUND = ("md_cmp", "max_pool")  # a maximum need not notice; nor a tap that lies in the padding


@pytest.mark.parametrize("case", CASES)
def test_results_that_change_are_those_that_depend(case: str) -> None:
    name = case.split()[0]
    row = row_of(name, **CASES[case])
    semantics = BY_NAME[name].semantics
    assert semantics is not None
    operands = semantics.operands(row)
    tensors = [o for o in operands if isinstance(o, Tensor)]
    results = [t for t in tensors if Access.WRITE in t.access]
    rng = np.random.default_rng(0)
    memory = Memory.create(ddr_bytes=1 << 20)
    flat = {space: memory.flat(space).view(np.float32) for space in Space}
    start = {id(t): rng.uniform(0.5, 2.0, (*t.shape, t.itemsize // 4)).astype(np.float32) for t in tensors}
    places = {id(t): t.indices()[..., None] * (t.itemsize // 4) + np.arange(t.itemsize // 4) for t in tensors}
    run = semantics.bind(row, memory)

    def executed(changed: Tensor | None = None, at: int = 0) -> list[np.ndarray]:
        for t in tensors:
            flat[t.space][places[id(t)]] = start[id(t)]
        if changed is not None:
            place = places[id(changed)].reshape(-1, changed.itemsize // 4)[at]
            flat[changed.space][place] += np.float32(8)
        run()
        return [flat[t.space][places[id(t)]][..., 0].copy() for t in results]

    before = executed()
    for tensor in tensors:
        if Access.READ not in tensor.access or tensor.space is Space.L2:
            continue
        total = int(np.prod(tensor.shape))
        for at in rng.choice(total, min(total, 12), replace=False).tolist():
            everywhere = places[id(tensor)][..., 0].reshape(-1)
            marks = everywhere == everywhere[at]  # a stride of 0 has many elements in one place
            told = influenced(name, row, operands, [Marked(tensor, marks.reshape(tensor.shape))])
            by_tensor = {one.tensor: one.marks for one in told}
            for result, old, new in zip(results, before, executed(tensor, at), strict=True):
                changed, depends = old != new, by_tensor.get(result, np.zeros(result.shape, bool))
                assert not (changed & ~depends).any(), (tensor.name, at)
                if not name.startswith(UPPER_BOUND) and (
                    tensor.name != "opd1" or not name.startswith(("conv.", "depthwise."))
                ):
                    assert np.array_equal(changed, depends), (tensor.name, at)


def test_of_others_everything_depends_on_everything() -> None:
    row = row_of("correlation")
    semantics = BY_NAME["correlation"].semantics
    assert semantics is not None
    operands = semantics.operands(row)
    [opd0] = [o for o in operands if isinstance(o, Tensor) and o.name == "opd0"]
    marks = np.zeros(opd0.shape, bool)
    marks[0, 0, 0, 0] = True
    [told] = influenced("correlation", row, operands, [Marked(opd0, marks)])
    assert told.marks.all()
    assert chip.NPU_NUM == 64

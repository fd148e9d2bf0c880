"""Every limit of a descriptor from three sides: below, at and above it.

What exists is read from the instruction table and the layouts: each instruction's example is changed in one
field. Refused means DeviceError, and a message that names the field or its operand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmware_sim import chip
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.flush import flushing
from firmware_sim.instructions.conv import fixed_of
from firmware_sim.instructions.example import LAYOUTS, example, row_of
from firmware_sim.instructions.instruction import Engine, Instruction, Semantics
from firmware_sim.instructions.packed import Packed
from firmware_sim.instructions.table import BY_NAME, TABLE
from firmware_sim.instructions.window import EXAMPLE
from firmware_sim.isa.codes import Format
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor, locate
from firmware_sim.isa.layout import BD, GDMA, Field, Layout, Row
from firmware_sim.memory import Memory

_DDR_BYTES = 64 << 20
_MEMORY_BYTES = {Space.LOCAL: chip.LOCAL_BYTES, Space.L2: chip.L2_BYTES, Space.DDR: _DDR_BYTES}
_ADDRESSES = {"src": "src_start_addr_l32", "dst": "dst_start_addr_l32", "mask": "dst_nstride"}
Bytes = npt.NDArray[Any]

_IMPLEMENTED = [i for i in TABLE if i.semantics]


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory.create(ddr_bytes=_DDR_BYTES)


@dataclass
class Asked:
    """An instruction and its example."""

    instruction: Instruction
    memory: Memory

    @property
    def fields(self) -> dict[str, int]:
        return example(self.instruction)

    @property
    def semantics(self) -> Semantics:
        assert self.instruction.semantics
        return self.instruction.semantics

    def row(self, **changes: int) -> Row:
        return row_of(self.instruction.engine, {**self.fields, **changes})

    def operands(self, **changes: int) -> tuple[Operand, ...]:
        return self.semantics.operands(self.row(**changes))

    def accepts(self, **changes: int) -> None:
        self.semantics.cycles(self.row(**changes))
        self.semantics.bind(self.row(**changes), self.memory)

    def refuses(self, message: str, **changes: int) -> None:
        with pytest.raises(DeviceError, match=message):
            self.semantics.bind(self.row(**changes), self.memory)

    def refusal(self, **changes: int) -> str:
        """The message, or nothing."""
        try:
            self.accepts(**changes)
        except DeviceError as error:
            return error.message
        return ""


@pytest.fixture
def asked(request: pytest.FixtureRequest, memory: Memory) -> Asked:
    return Asked(request.param, memory)


def ask(name: str, memory: Memory) -> Asked:
    return Asked(BY_NAME[name], memory)


every_instruction = pytest.mark.parametrize("asked", _IMPLEMENTED, ids=lambda i: i.name, indirect=True)


# --- fields and addresses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "field"),
    [(layout, field) for layout in (BD, GDMA) for field in layout.fields],
    ids=lambda given: given.name,
)
def test_what_a_field_holds(layout: Layout, field: Field) -> None:
    for value in (0, field.limit - 1, field.limit):
        assert layout.decode(layout.encode(**{field.name: value}))[field.name] == value
    for value in (-1, field.limit + 1):
        with pytest.raises(UsageError, match=rf"field {field.name}: {value} does not fit"):
            layout.encode(**{field.name: value})


@pytest.mark.parametrize(
    ("space", "base", "size"),
    [
        (Space.LOCAL, chip.LOCAL_BASE, chip.NPU_NUM * chip.LOCAL_BYTES),
        (Space.L2, chip.L2_BASE, chip.L2_BYTES),
        (Space.DDR, chip.DDR_BASE, chip.DDR_BYTES),
    ],
)
def test_where_memories_begin_and_end(space: Space, base: int, size: int) -> None:
    assert locate(base, "src") == (space, 0)
    assert locate(base + size - 1, "src") == (space, size - 1)
    for address in (base - 1, base + size):
        with pytest.raises(DeviceError, match=f"src: no memory at address 0x{address:x}"):
            locate(address, "src")


def _address_field(name: str) -> str:
    return _ADDRESSES.get(name, f"{name}_addr")


def _placed(asked: Asked) -> Iterator[tuple[str, int, Tensor]]:
    """Each operand that has an address: its name, what the address must be a multiple of, the operand."""
    for operand in {o.name: o for o in asked.operands()}.values():
        if isinstance(operand, Tensor) and operand.name != "zeros":  # those of dst
            field = _address_field(operand.name)
            start = asked.fields[field]
            unit = next(n for n in (1 << k for k in range(10)) if not asked.refusal(**{field: start + n}))
            yield operand.name, unit, operand


@every_instruction
def test_addresses_are_aligned(asked: Asked) -> None:
    for name, unit, _ in _placed(asked):
        field = _address_field(name)
        start = asked.fields[field]
        asked.accepts(**{field: start + unit})
        for wrong in {unit // 2, unit - 1, unit + 1} if unit > 1 else ():
            asked.refuses(rf"^{name}: .*multiple of", **{field: start + wrong})


@every_instruction
def test_operands_end_with_their_memory(asked: Asked) -> None:
    """The last place at which an operand fits, one before, and one behind."""
    for name, unit, operand in _placed(asked):
        if (asked.instruction.name, name) == ("gather", "opd0"):
            continue  # all of L2 from its address on
        field = _address_field(name)
        same = [o for o in asked.operands() if isinstance(o, Tensor) and o.name in (name, "zeros")]
        end = max(o.reach()[1] for o in same if o.name == name or name == "dst")
        limit = _MEMORY_BYTES[operand.space]
        last = asked.fields[field] + (limit - end) // unit * unit
        asked.accepts(**{field: last - unit})
        asked.accepts(**{field: last})
        if operand.space is Space.LOCAL and operand.offset + last - asked.fields[field] + unit >= limit:
            continue  # no larger than a unit: behind it begins the next lane
        asked.refuses(rf"^({name}|zeros)\b.*reaches", **{field: last + unit})


def test_a_last_group_of_batches_begins_inside_its_lane() -> None:
    """Five batches of 8-bit elements: the fifth lies in a group of its own, n_str words behind."""

    def tensors(n_str: int) -> None:
        Packed("res0", Access.WRITE, 128, (5, 1, 1, 1), (n_str, 1, 1, 1), 1, 4).tensors()

    limit = (chip.LOCAL_BYTES - 128) // 4
    tensors(limit - 1)
    for n_str in (limit, limit + 1):
        with pytest.raises(DeviceError, match=r"^res0 at .*last batches begin at"):
            tensors(n_str)


def test_elements_over_one_another(memory: Memory) -> None:
    def check(count: int, access: Access = Access.WRITE) -> None:
        shape = (1, 1, count // 4096, 4096)
        tensor = Tensor("res0", access, Space.LOCAL, 0, shape, (0, 0, 0, 0), 4)
        memory.check(tensor, tensor.parts()[0], tensor.block(tensor.parts()[0]))

    limit = 1 << 25
    check(limit - 4096)
    check(limit)
    check(limit + 4096, Access.READ)
    with pytest.raises(DeviceError, match=f"^res0 .* writes {limit + 4096} elements over one another"):
        check(limit + 4096)


# --- sizes and windows ---------------------------------------------------------------------------

_SIZES = {
    Engine.BD: re.compile(r"(res0|opd[01])_[nchw]|res_op_[xy]_str"),
    Engine.GDMA: re.compile(r"(src|dst)_[nchw]size"),
}


_ZERO = re.compile(
    r"^(res0|opd[01]|src|dst): "
    r"(shape .* has a size of zero|its [hw] is zero|[hw] is 0|no channels|a table without)"
    r"|^\w+_\w+( is|: a stride of) zero"
)


_SIZED = [
    i for i in _IMPLEMENTED if i.name not in ("matmul2", "sort", "gather")
]  # these have fixed ones, or lengths


@pytest.mark.parametrize("asked", _SIZED, ids=lambda i: i.name, indirect=True)
def test_sizes_begin_at_one(asked: Asked) -> None:
    """Zero is refused by name wherever the field counts, and one is a size like others."""
    counting = 0
    pattern = _SIZES[asked.instruction.engine]
    for field in (f.name for f in LAYOUTS[asked.instruction.engine].fields if pattern.fullmatch(f.name)):
        for value in (1, 2):
            refused = asked.refusal(**{field: value})
            assert not _ZERO.search(refused), (field, value)
        refused = asked.refusal(**{field: 0})
        if refused:
            counting += 1
            assert _ZERO.search(refused), (field, refused)
        else:  # the field is not read, or is not a size here
            assert asked.operands(**{field: 0}) == asked.operands(**{field: 1}), field
    assert counting


_WINDOWS = [i for i in _IMPLEMENTED if "opd0_up_pad" in i.example]
_CUT = ("depthwise", "max_pool", "correlation")  # their results may be a part


@pytest.mark.parametrize("axis", "hw")
@pytest.mark.parametrize("asked", _WINDOWS, ids=lambda i: i.name, indirect=True)
def test_a_result_is_as_large_as_its_windows(asked: Asked, axis: str) -> None:
    field = f"res0_{axis}"
    size = asked.fields[field]
    asked.accepts(**{field: size})
    asked.refuses(f"^res0: {axis} is {size + 1}, but input and kernel give {size} ", **{field: size + 1})
    if asked.instruction.name.startswith(_CUT):
        asked.accepts(**{field: size - 1})
    else:
        asked.refuses(f"^res0: {axis} is {size - 1}, but", **{field: size - 1})


@pytest.mark.parametrize("asked", _WINDOWS, ids=lambda i: i.name, indirect=True)
@pytest.mark.parametrize("letter", "yx")
def test_a_stride_of_zero(asked: Asked, letter: str) -> None:
    asked.refuses(f"^res_op_{letter}_str: a stride of zero", **{f"res_op_{letter}_str": 0})


_MATRICES = [i for i in _IMPLEMENTED if i.name.startswith(("matmul.", "vector_correlation."))]


@pytest.mark.parametrize("asked", _MATRICES, ids=lambda i: i.name, indirect=True)
def test_the_last_channel_is_no_wider_than_the_others(asked: Asked) -> None:
    width = asked.fields["opd0_w"]
    for value in (width - 1, width):
        asked.accepts(opd1_w=value, res0_n=1)
    asked.refuses("^opd1_w: ", opd1_w=width + 1)


@pytest.mark.parametrize("axis", "hw")
@pytest.mark.parametrize("name", ["conv.winograd_int8", "conv.winograd_fp32"])
def test_winograd_tiles_are_4_x_4(name: str, axis: str, memory: Memory) -> None:
    for value in (3, 5):
        ask(name, memory).refuses(f"^opd1: {axis} is {value}\\b", **{f"opd1_{axis}": value})


# --- the fields of single families ---------------------------------------------------------------


def test_maxima_are_not_shifted(memory: Memory) -> None:
    pool = ask("max_pool.int8", memory)
    pool.accepts(opt_right_shift=0)
    pool.refuses("^opt_right_shift: 1", opt_right_shift=1)


@pytest.mark.parametrize("name", ["conv.int8", "conv.int8_to_int16", "conv.winograd_int8"])
def test_8_bit_convolutions_add_nothing(name: str, memory: Memory) -> None:
    asked = ask(name, memory)
    if name != "conv.winograd_int8":  # which does not read the field
        asked.refuses("^opt_res_add: ", opt_res_add=1)
    asked.accepts(opt_res_add=0)


def test_tables_in_l2(memory: Memory) -> None:
    for name, field, unit in (("md_sfu.taylor", "opd1_n", 1), ("table_lookup", "opd1_h", 32)):
        asked = ask(name, memory)
        place = chip.L2_BYTES - 3 * unit * 4
        for count in (2, 3):
            asked.accepts(**{field: count, "opd1_addr": place})
        asked.refuses("^opd1: a table of .* reaches beyond", **{field: 4, "opd1_addr": place})
        asked.refuses("^opd1: a table without entries", **{field: 0})


def _filled(memory: Memory, offset: int, *values: int) -> None:
    memory.flat(Space.LOCAL)[offset : offset + 4 * len(values)] = np.array(values, np.uint32).view(np.uint8)


@pytest.mark.parametrize("index", [30, 31, 32, 255])
def test_lookups_stay_in_their_table(index: int, memory: Memory) -> None:
    asked = ask("table_lookup", memory)
    row = asked.row(opd1_h=1, res0_c=1, res0_h=1, res0_w=1)
    _filled(memory, asked.fields["opd0_addr"] - chip.LOCAL_BASE, index)
    run = asked.semantics.bind(row, memory)
    if index < 32:
        run()
    else:
        with pytest.raises(DeviceError, match=f"^opd0: index {index} is beyond the table of 32 words"):
            run()


def test_indices_of_gather_stay_in_l2(memory: Memory) -> None:
    asked = ask("gather", memory)
    entries = (chip.L2_BYTES - (asked.fields["opd0_addr"] - chip.L2_BASE)) // 4
    at = asked.fields["opd1_addr"] - chip.L2_BASE
    run = asked.semantics.bind(asked.row(res0_h_str=1), memory)
    for index in (entries - 2, entries - 1, entries):
        memory.l2[at : at + 4] = np.array([index], np.uint32).view(np.uint8)
        if index < entries:
            run()
        else:
            with pytest.raises(DeviceError, match=f"^opd1: index {index} reaches beyond L2"):
                run()


def test_lengths_of_sort_and_gather(memory: Memory) -> None:
    sort, gather = ask("sort", memory), ask("gather", memory)
    for length in (1023, 1024):
        sort.accepts(res0_h_str=length, opd0_h_str=1024)
    sort.refuses("^res0: 1025 of 1024 elements", res0_h_str=1025, opd0_h_str=1024)
    for asked in (sort, gather):
        asked.accepts(res0_h_str=1)
        asked.refuses("^res0: 0 elements", res0_h_str=0)


@pytest.mark.parametrize("side", ["src", "dst"])
def test_data_formats(side: str, memory: Memory) -> None:
    last = max(Format)
    both = {"src_data_format": last, "dst_data_format": last}
    copy = ask("gdma.copy.s2l", memory)
    copy.accepts(**both)
    copy.refuses(
        f"^{side}: data format {last + 1} does not exist", **{**both, f"{side}_data_format": last + 1}
    )


@pytest.mark.parametrize("field", ["dst_wsize", "dst_nsize"])
@pytest.mark.parametrize("name", ["gdma.copy.s2l", "gdma.copy.l2s", "gdma.copy.s2s", "gdma.copy.l2l"])
def test_copies_keep_the_number_of_elements(name: str, field: str, memory: Memory) -> None:
    asked = ask(name, memory)
    for value in (asked.fields[field] - 1, asked.fields[field] + 1):
        asked.refuses("src shape .* and dst shape|^dst: .* size of zero", **{field: value})


def test_rows_of_a_matrix_lie_apart(memory: Memory) -> None:
    """80 columns in channels of 32, written with rows that many elements apart."""
    local = {"src_nsize": 4, "src_csize": 3, "src_hsize": 1, "src_wsize": 32, "sys_mem_type": 1}
    fields = {**local, "dst_hsize": 4, "dst_wsize": 80, "dst_wstride": 1}
    asked = ask("gdma.copy.l2s", memory)
    for apart in (80, 81):
        asked.accepts(**fields, dst_hstride=apart)
    asked.refuses("^dst: rows of 80 columns lie 79 elements apart", **fields, dst_hstride=79)


def test_channels_of_an_exchange_lie_apart(memory: Memory) -> None:
    asked = ask("gdma.transpose_cw", memory)
    width = asked.fields["dst_wsize"]
    for apart in (width, width + 1):
        asked.accepts(dst_cstride=apart)
    asked.refuses(f"^dst: channels of {width} columns lie {width - 1} elements apart", dst_cstride=width - 1)


def test_a_masked_copy_counts_its_elements(memory: Memory) -> None:
    asked = ask("gdma.filter", memory)
    count = asked.fields["src_nstride"]
    asked.accepts(src_nstride=count)
    for wrong in (count - 1, count + 1):
        asked.refuses(f"^src_nstride: {wrong}, but", src_nstride=wrong)


def test_channels_of_zeros_before_the_first(memory: Memory) -> None:
    """On the first line of lane 5 there is room for five."""
    fields = {"dst_start_addr_l32": chip.LOCAL_BASE + 5 * chip.LOCAL_BYTES, "lrn_shift_dir": 1}
    fields["src_start_addr_l32"] = chip.LOCAL_BASE + chip.LOCAL_BYTES // 2
    asked = ask("gdma.lrn_shift", memory)
    for count in (4, 5):
        asked.accepts(**fields, lrn_shift_num=count)
    asked.refuses("^dst: 6 channels before its first one reach out", **fields, lrn_shift_num=6)


_OVERLAPPING = {"src_start_addr_l32": chip.LOCAL_BASE, "dst_start_addr_l32": chip.LOCAL_BASE + 4}


@pytest.mark.parametrize(
    "changes",
    [
        {"localmem_mask_l32": 0xFFFF_FFFE},
        {"localmem_mask_h32": 0x7FFF_FFFF},
        {"acc_write_enable": 1},
    ],
)
def test_only_a_plain_copy_may_overlap(changes: dict[str, int], memory: Memory) -> None:
    asked = ask("gdma.copy.l2l", memory)
    asked.accepts(**_OVERLAPPING)
    asked.accepts(**changes)
    asked.refuses("^src and dst overlap", **_OVERLAPPING, **changes)
    end = asked.fields["src_wsize"] * asked.fields["src_hsize"] * 4  # of src in its lanes
    asked.accepts(**changes, **{**_OVERLAPPING, "dst_start_addr_l32": chip.LOCAL_BASE + end})
    beyond = {**_OVERLAPPING, "dst_start_addr_l32": chip.LOCAL_BASE + end - 4}
    asked.refuses("^src and dst overlap", **changes, **beyond)


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "exponent"),
    [
        (0x3FAAAAAA, 127),  # the last number below 4/3
        (0x3FAAAAAB, 127),  # the first above
        (0x3FAAAAAC, 128),
        (0x00AAAAAB, 1),
        (0x00AAAAAC, 2),
        (0x7F2AAAAB, 254),
        (0x7F2AAAAC, 255),
        (0xBFAAAAAB, 127),
        (0xBFFFFFFF, 127),
    ],
)
def test_from_where_powers_of_two_are_rounded_up(bits: int, exponent: int, memory: Memory) -> None:
    """As the vendor's functional model rounds these numbers."""
    for name, want in (
        ("md_sfu.int_normalize", exponent),
        ("md_sfu.fp32_normalize", exponent << 23 | bits & 0x8000_0000),
    ):
        asked = ask(name, memory)
        (function,) = asked.semantics.functions
        words, at = np.array([0, bits], np.uint32), np.array([[0], [1]])
        with flushing():
            assert function.reference(words[1:]).tolist() == [want]
            function.expression.loop().bound(words, words, at, 1)()
        assert words[0] == want


_DEEP = 2048  # products of a sum; half of them are large in one direction, half in the other


def _opposed(rng: np.random.Generator, columns: int, signed: int) -> tuple[Bytes, Bytes, Bytes]:
    """Two factors of full magnitude, [_DEEP] and [_DEEP, columns], `signed` says which of them is signed, and
    their exact product, which is small."""
    half = _DEEP // 2
    if signed == 0:
        large = rng.integers(200, 256, (half, columns))
        one, other = np.repeat([127, -128], half), np.concatenate([large, (large * 127 + 64) // 128])
    else:
        large = rng.integers(100, 128, (half, columns))
        back = -large + rng.integers(-1, 2, large.shape)
        one, other = np.repeat(255, _DEEP), np.concatenate([large, back])
    total = one @ other
    assert np.abs(total).max() < 1 << 15
    return one.astype(np.uint8), other.astype(np.uint8), total


def _put(memory: Memory, operand: Operand, values: Bytes) -> None:
    assert isinstance(operand, Tensor)
    flat = memory.flat(Space.LOCAL).view(values.dtype)
    flat[operand.indices()] = values.reshape(operand.shape)


def _got(memory: Memory, operand: Operand) -> Bytes:
    assert isinstance(operand, Tensor)
    return memory.flat(Space.LOCAL).view(np.int16)[operand.indices()].reshape(-1)


@pytest.mark.parametrize("signed", [0, 1])
def test_deep_convolutions_of_full_magnitude_are_exact(signed: int, memory: Memory) -> None:
    """Partial sums go beyond 2**24, up to which fp32 numbers are exact, and come back."""
    x, w, want = _opposed(np.random.default_rng(1), 64, signed)
    asked = ask("conv.int8_to_int16", memory)
    plain = {name: 0 for name in EXAMPLE if name.endswith("_pad")} | {"opd1_h": 1, "opd1_w": 1}
    size = {"res0_h": 1, "res0_w": 1, "opd0_h": 1, "opd0_w": 1, "opd0_c": _DEEP}
    fields = {**plain, **size, "opt_opd0_sign": 1 - signed, "opt_opd1_sign": signed, "opt_relu": 0}
    out, source, weights = asked.operands(**fields)
    _put(memory, source, x)
    _put(memory, weights, np.ascontiguousarray(w.reshape(-1, 4, 64).swapaxes(1, 2)).view(np.uint32))
    asked.semantics.bind(asked.row(**fields), memory)()
    assert np.array_equal(_got(memory, out), want)


@pytest.mark.parametrize("signed", [0, 1])
def test_deep_matrix_products_of_full_magnitude_are_exact(signed: int, memory: Memory) -> None:
    left, right, want = _opposed(np.random.default_rng(2), 64, signed)
    fields = {"opd0_n": 1, "opd0_c": 64, "opd0_w": 32, "opd1_w": 32, "res0_c": 64, "res0_w": 1}
    fields |= {"opt_opd0_sign": 1 - signed, "opt_opd1_sign": signed, "opt_relu": 0, "opt_res0_prec": 3}
    fields |= {
        f"{name}_addr": chip.LOCAL_BASE + i * 0x1000 for i, name in enumerate(("res0", "opd0", "opd1"))
    }
    asked = ask("matmul.int8", memory)
    out, first, second = asked.operands(**fields)
    _put(memory, first, left)
    _put(memory, second, right)
    asked.semantics.bind(asked.row(**fields), memory)()
    assert np.array_equal(_got(memory, out), want)


@pytest.mark.parametrize("input_signed", [0, 1])
@pytest.mark.parametrize("weight_signed", [0, 1])
def test_the_largest_product_of_8_bit_numbers(input_signed: int, weight_signed: int) -> None:
    fields = {"opt_opd0_sign": input_signed, "opt_opd1_sign": weight_signed}
    row = row_of(Engine.BD, {**example(BY_NAME["conv.int8"]), **fields})
    largest = [128 if signed else 255 for signed in (input_signed, weight_signed)]
    assert fixed_of(row).limit == largest[0] * largest[1]

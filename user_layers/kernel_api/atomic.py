"""Rows of the table: arithmetic, copies, sort, gather and local functions of bm_atomic.h."""

from __future__ import annotations

from user_layers.kernel_api import costs
from user_layers.kernel_api.entry import (
    FIELDS,
    Cost,
    Entry,
    Extents,
    Family,
    Layout,
    Level,
    Limit,
    Operand,
    aligned,
)
from user_layers.kernel_api.special import EXP, SIGMOID, TANH

_FORMAT = Limit("format", None, 4, "format one of BmGDMAFormat", {"result_add": False})
_RSHIFT = Limit("rshift_bit", 0, 31)


def _strided(name: str, element: str, role: str = "input") -> Operand:
    return Operand(
        name, element, Layout.EXPLICIT, role, 1, note="" if role == "result" else f"or {name}_const"
    )


_OPS = {
    "MUL": 0,
    "MAC": 1,
    "ADD": 2,
    "SUB": 3,
    "MAX": 4,
    "MIN": 5,
    "SHIFT": 6,
    "AND": 7,
    "OR": 8,
    "XOR": 9,
    "SG": 10,
    "SE": 11,
    "DIV": 12,
    "TAYLOR": 13,
    "FP32_INT32": 14,
    "NORMALIZE_INT32": 15,
    "NORMALIZE_FP32": 16,
    "RSQRT": 17,
    "CPY": 19,
    "SQR_SUM": 20,
    "SQR_DIFF": 21,
}


def _ops(names: str) -> tuple[int, ...]:
    return tuple(_OPS[name] for name in names.split())


def _taken(names: str) -> str:
    return "op is one of " + ", ".join(f"BM_{name}" for name in names.split()) + "."


def _elementwise() -> tuple[Entry, ...]:
    fixed = "MUL MAC ADD SUB MAX MIN SHIFT AND OR XOR CPY"
    any_op = "MUL MAC ADD SUB MAX MIN SHIFT AND OR XOR SG SE DIV CPY"
    pairs = "MUL ADD SUB MAX MIN AND OR XOR DIV"
    special = "TAYLOR FP32_INT32 NORMALIZE_INT32 NORMALIZE_FP32 RSQRT"
    word = aligned("output", "32-bit", "result")
    return (
        Entry(
            "bm_atomic_tensor_arithmetic",
            "An operation of okk.h on strided tensors: op says which.",
            "",
            0.0,
            (
                _strided("output", "32-bit", "result"),
                _strided("input0", "32-bit"),
                _strided("input1", "32-bit"),
            ),
            FIELDS,
            (),
            (Cost(("ar.OP",), "2 * n * L * P", "BM_MAC 5, BM_DIV 30 instead of 2"),),
            ("input0", "input1"),
            values={"op": _ops(any_op)},
            notes=(
                _taken(any_op),
                "input0 OP input1 as okk_bdc_* has it, BM_MAC adds the product to the old output, BM_CPY "
                "is input0. "
                "BM_SG and BM_SE give select_value where input0 is greater or has the same bits, else 0.",
                "Bitwise operations and shifts are on 32-bit integers; shift_type 1 is arithmetic, 0 "
                "logical.",
                "All strides are given, in elements.",
            ),
        ),
        Entry(
            "bm_atomic_tensor_arithmetic_quantized",
            "The same on packed 8-bit (4N) and 16-bit (2N) integers.",
            "",
            0.0,
            (
                _strided("output", "8-bit 4N or 16-bit 2N", "result"),
                *(
                    Operand(
                        n,
                        "8-bit 4N or 16-bit 2N",
                        Layout.EXPLICIT,
                        unit=1,
                        note=f"the constant itself with {n}_is_const",
                    )
                    for n in ("input0", "input1")
                ),
            ),
            FIELDS,
            (_RSHIFT, Limit("lshift_bit", 0, 31)),
            (Cost(("ar.fixed.OP",), "2 * ceil(n / per_word) * L * P", "BM_MAC 5 instead of 2"),),
            ("input0", "input1"),
            notes=(
                _taken(fixed),
                "As okk_bdc_fixed_point_packed_*: sources have one width; those of products are 8-bit, "
                "BM_MAC adds to "
                "a 16-bit output; shifts are 16-bit with signed counts; bitwise results have the "
                "sources' width; "
                "both sources of a maximum have one sign.",
                "input1_n_is1, _h_is1 and _w_is1 repeat input1 along that axis.",
            ),
        ),
        Entry(
            "bm_atomic_table_lookup",
            "Words of a table in L2 by their indices.",
            "table[index & 255]",
            0.0,
            (
                word,
                aligned("index", "8-bit 4N or 32-bit", note="by index_prec: 0 8-bit, 1 32-bit"),
                Operand(
                    "table",
                    "32-bit",
                    Layout.TABLE,
                    unit=4,
                    extent="table_len",
                    note="its address is an offset in L2; table_len is rounded up to a multiple of 32",
                ),
            ),
            FIELDS,
            (Limit("index_prec", None, 1, "index_prec 0 or 1"),),
            (Cost(("table_lookup",), "24 * n * L * P"),),
            notes=("The low 8 bits of an index count; an index of table_len or more is undefined.",),
        ),
        Entry(
            "bm_atomic_md_scalar",
            "A sum, difference, product or quotient on the aligned layout.",
            "",
            0.0,
            (
                aligned("output", "fp32", "result, its old value is read with result_add"),
                *(aligned(n, "fp32", note=f"or {n}_const") for n in ("input0", "input1")),
            ),
            FIELDS,
            (),
            (Cost(("md_scalar.OP",), "n * L * P", "BM_DIV 30 times"),),
            ("input0", "input1"),
            notes=(
                _taken("MUL ADD SUB DIV"),
                "result_add adds a product to the old output; refused with other operations.",
                "Both addresses are checked also where a constant is taken.",
            ),
            values={"op": _ops("MUL ADD SUB DIV")},
        ),
        Entry(
            "bm_atomic_md_linear",
            "A scale and a sum for each channel, or squares.",
            "",
            0.0,
            (
                aligned("output", "fp32", "result, its old value is read with result_add"),
                aligned("tensorA", "fp32"),
                *(
                    Operand(n, "fp32", Layout.CHANNEL, unit=1, extent="c elements", note=f"or {n}_const")
                    for n in ("tensorB", "tensorS")
                ),
            ),
            FIELDS,
            (),
            (Cost(("md_linear.OP",), "4 * n * L * P"),),
            ("tensorA",),
            notes=(
                "BM_MAC: A * S + B, the product rounded first. BM_SQR_SUM: (A + B)**2. BM_SQR_DIFF: (A - "
                "B)**2. "
                "result_add counts with BM_MAC only.",
            ),
            values={"op": _ops("MAC SQR_SUM SQR_DIFF")},
        ),
        Entry(
            "bm_atomic_md_cmp",
            "The greater of A and B, and C or D by which one it is.",
            "",
            0.0,
            (
                aligned("tensorY", "fp32", "result", note="where(A > B, A, B)"),
                aligned("tensorR", "32-bit", "result", note="where(A > B, C, D)"),
                *(
                    aligned(f"tensor{n}", "fp32" if n in "AB" else "32-bit", note=f"or tensor{n}_const")
                    for n in "ABCD"
                ),
            ),
            FIELDS,
            (Limit("result_skip", 0, 2),),
            (
                Cost(("md_cmp.max_select",), "2 * n * L * P", "result_skip 0"),
                Cost(("md_cmp.max",), "n * L * P", "result_skip 1, only Y"),
                Cost(("md_cmp.select",), "n * L * P", "result_skip 2, only R"),
            ),
            notes=("A comparison with nan does not hold. Addresses of both results are checked.",),
        ),
        Entry(
            "bm_atomic_md_sfu",
            "A special function on the aligned layout.",
            "",
            0.0,
            (word, aligned("input", "fp32")),
            FIELDS,
            (),
            (Cost(("md_sfu.OP",), "n * L * P", "BM_RSQRT 27, BM_TAYLOR 2 + 4 * taylor_len times"),),
            ("input",),
            notes=(
                "BM_RSQRT, BM_FP32_INT32: as okk_bdc_rsqrt and okk_bdc_fp32_to_int32. BM_TAYLOR: the sum of "
                "coefficient[k] * x**(k + 1) for k below taylor_len, coefficients in L2 at the offset "
                "taylor_coef_addr. BM_NORMALIZE_FP32: the exponent of x, rounded, as an int32; "
                "BM_NORMALIZE_INT32: "
                "the power of two with this exponent and the sign of x.",
            ),
            values={"op": _ops(special)},
        ),
        Entry(
            "bm_atomic_vec_correlation",
            "An operation of every element of one vector with every one of another.",
            "",
            0.0,
            (
                aligned("output", "32-bit", "result", "input0 x input1", "row i: input0[i] OP input1"),
                Operand(
                    "input0",
                    "32-bit",
                    Layout.MATRIX,
                    unit=128,
                    extent="(input0_c - 1) * input0_w + input0_w_last elements",
                ),
                Operand("input1", "32-bit", Layout.MATRIX, unit=128, extent="input1_c * input1_w elements"),
            ),
            None,
            (),
            (
                Cost(
                    ("vector_correlation.OP",),
                    "2 * elements of input0 * slots(input1_c) * ceil(input1_w / 16)",
                    "BM_DIV 30 instead of 2",
                ),
            ),
            notes=(_taken(pairs),),
            values={"op": _ops(pairs)},
        ),
    )


def _others() -> tuple[Entry, ...]:
    clamp = ("md_cmp.max", "ar.min")
    source = Operand("input_data", "fp32", Layout.CONTINUOUS, unit=1, extent="input_len")
    return (
        Entry(
            "bm_atomic_sort",
            "Sorts fp32 numbers in DDR or L2, perhaps with their indices.",
            "",
            0.0,
            (
                Operand("output_data", "fp32", Layout.CONTINUOUS, "result", 1, "output_len"),
                source,
                Operand(
                    "output_index",
                    "32-bit",
                    Layout.CONTINUOUS,
                    "result",
                    1,
                    "output_len",
                    "with index_enable",
                ),
                Operand(
                    "input_index",
                    "32-bit",
                    Layout.CONTINUOUS,
                    unit=1,
                    extent="input_len",
                    note="with index_enable; 0, 1, 2 ... with index_auto",
                ),
            ),
            None,
            (
                Limit("output_len", 1, 4, "output_len 1..input_len"),
                Limit("input_len", 1, None, given={"output_len": 1}),
                Limit("input_len", 4, None, hidden=True),
                Limit("order", None, 1, "order BM_ASCEND or BM_DESCEND"),
            ),
            (Cost(("sort",), "a guess: ceil(log2(input_len)) copies of 8 * input_len bytes within DDR"),),
            notes=("Equal numbers keep their order, nan comes last.",),
        ),
        Entry(
            "bm_atomic_gather_data",
            "output[i] = data[index[i]], all in L2.",
            "",
            0.0,
            (
                Operand("output", "by type", Layout.TABLE, "result", 1, "length"),
                Operand("data", "by type", Layout.TABLE, unit=1, extent="any"),
                Operand("index", "32-bit", Layout.TABLE, unit=1, extent="length"),
            ),
            None,
            (Limit("length", 1, None),),
            (Cost(("gather",), "length, a guess"),),
            notes=(
                "type: BM_GD_8BIT, BM_GD_32BIT or BM_GD_128BIT, the size of an element. Addresses are "
                "absolute, 0x10000000..0x103FFFFF; indices count elements from data_addr on.",
            ),
            values={"type": (0, 2, 4)},
        ),
        Entry(
            "bm_local_exp",
            "src becomes e^src.",
            "exp(src)",
            5e-7,
            (
                aligned("src", "fp32", "result and input"),
                aligned("imm", "fp32", "work buffer, as large as src"),
            ),
            FIELDS,
            (),
            (Cost((*EXP, "ar.copy"), "184 * n * L * P"),),
            apart=(("imm", "src"),),
            apart_level=Level.ERROR,
            notes=("src is in -103..88.",),
        ),
        Entry(
            "bm_local_act",
            "An activation of any number.",
            "",
            0.0,
            (
                aligned("dst", "fp32", "result"),
                aligned("src", "fp32"),
                aligned("imm", "fp32", "work buffer, as large as src"),
            ),
            FIELDS,
            (Limit("act_type", None, 4, "act_type one of BmActType"),),
            (
                Cost(("md_cmp.max",), "n * L * P", "BM_RELU"),
                Cost(("md_cmp.max", *EXP, "md_scalar.sub", "md_cmp.select"), "185 * n * L * P", "BM_ELU"),
                Cost((*clamp, *TANH), "250 * n * L * P", "BM_TANH"),
                Cost((*clamp, *SIGMOID), "217 * n * L * P", "BM_SIGMOID"),
            ),
            notes=(
                "BM_RELU, BM_ELU (alpha 1), BM_TANH, BM_SIGMOID. BM_PRELU is refused: the struct has no "
                "slope. "
                "Except for BM_RELU, which does not use imm, src, dst and imm are three buffers: else "
                "refused.",
            ),
        ),
    )


def _moves() -> tuple[Entry, ...]:
    s2l = "as okk_gdma_32bit_cpy_* of that direction"
    place = "a system address, or an offset on NPU {}_local_idx"
    return (
        Entry(
            "bm_atomic_memcpy_1D",
            "Copies length elements.",
            "src",
            0.0,
            (
                Operand("dst", "by format", Layout.CONTINUOUS, "result", 1, "length"),
                Operand("src", "by format", Layout.CONTINUOUS, unit=1, extent="length"),
            ),
            None,
            (Limit("length", 1, None), Limit("direction", None, 3, "direction one of BmGDMADir"), _FORMAT),
            (Cost(("gdma.copy",), s2l),),
            notes=("Both addresses are absolute, local memory from 0x08000000 on.",),
        ),
        Entry(
            "bm_atomic_memcpy_2D",
            "Copies a matrix between system memory and the matrix layout.",
            "src",
            0.0,
            (
                Operand(
                    "local_mem",
                    "by format",
                    Layout.MATRIX,
                    "source or result",
                    1,
                    "row x col",
                    "an offset on NPU local_mem_idx; sec_size columns to a channel",
                ),
                Operand("global_mem", "by format", Layout.SYSTEM_MATRIX, "source or result", 1, "row x col"),
            ),
            None,
            (
                Limit("direction", None, 1, "direction BM_GDMA_DIR_S2L or BM_GDMA_DIR_L2S"),
                _FORMAT,
                Limit("row", 1, 65535),
                Limit("col", 1, 65535),
                Limit("sec_size", 1, None),
            ),
            (Cost(("gdma.copy or gdma.transpose_nc",), s2l),),
            notes=("transpose exchanges rows and columns; result_add adds to the old result, of fp32 only.",),
        ),
        Entry(
            "bm_atomic_memcpy_4D",
            "Copies a tensor, perhaps exchanging n and c or converting elements.",
            "src",
            0.0,
            (
                Operand(
                    "dst", "by dst_format", Layout.EXPLICIT, "result", 1, "dst_shape", place.format("dst")
                ),
                Operand(
                    "src", "by src_format", Layout.EXPLICIT, "input", 1, "src_shape", place.format("src")
                ),
            ),
            None,
            (),
            (Cost(("gdma.copy or gdma.transpose_nc or gdma.convert",), s2l),),
            notes=(
                "Both shapes have as many elements. The w-strides are 1 where there is more than one column.",
                "fp32 to fp16 truncates towards 0, fp32 to 8-bit rounds half to even and saturates; "
                "int16 is not "
                "converted, nor is anything while n and c are exchanged.",
            ),
        ),
        Entry(
            "bm_atomic_memset_4D",
            "Fills a tensor with const_val.",
            "C",
            0.0,
            (
                Operand(
                    "start",
                    "by format",
                    Layout.EXPLICIT,
                    "result",
                    1,
                    "shape",
                    "a system address, or with is_local_mem an offset on NPU local_idx",
                ),
            ),
            None,
            (_FORMAT,),
            (
                Cost(
                    ("gdma.fill",),
                    f"{costs.LOCAL} in local memory, else as okk_gdma_32bit_set_C_system",
                ),
            ),
            notes=("const_val points to as many bytes as an element has. The w-stride is 1.",),
        ),
        Entry(
            "bm_atomic_cwtrans",
            "Exchanges channels and columns: dst[0, w, 0, c] = src[0, c, 0, w].",
            "",
            0.0,
            (
                Operand(
                    "dst",
                    "by format",
                    Layout.EXPLICIT,
                    "result",
                    1,
                    "1, src_w, 1, src_c",
                    "on NPU dst_local_idx",
                ),
                Operand(
                    "src",
                    "by format",
                    Layout.EXPLICIT,
                    "input",
                    1,
                    "1, src_c, 1, src_w",
                    "on NPU src_local_idx",
                ),
            ),
            None,
            (_FORMAT, Limit("src_c", 1, 65535), Limit("src_w", 1, 65535)),
            (Cost(("gdma.transpose_cw",), costs.LOCAL),),
        ),
        Entry(
            "bm_atomic_mask_memcpy_4D",
            "Copies the words whose mask is not 0, one behind the other.",
            "",
            0.0,
            (
                Operand("dst_global_mem", "32-bit", Layout.CONTINUOUS, "result", 512, "as many as are kept"),
                aligned("data_local_mem", "32-bit", note="on NPU local_mem_idx"),
                aligned("mask_local_mem", "32-bit", note="on NPU local_mem_idx"),
            ),
            _MASKED,
            (),
            (Cost(("gdma.filter",), costs.WRITE_WHOLE),),
            notes=("In the order of n, c, h, w; bm_get_mask_memcpy_res_num says how many there were.",),
        ),
        Entry(
            "bm_get_mask_memcpy_res_num",
            "How many words the newest bm_atomic_mask_memcpy_4D kept.",
            notes=(
                "Waits for everything, so not inside a parallel section and not in a net that is "
                "compiled statically.",
            ),
        ),
    )


_MASKED = Extents(dict.fromkeys("nchw", 65535))
FAMILIES = (
    Family(
        "bm_atomic: element by element",
        "BmAtomicOp says what is computed. Nothing is cut into several commands.",
        _elementwise(),
    ),
    Family(
        "bm_atomic: copies",
        "Formats are fp32, int16, uint8, int8 and fp16.",
        _moves(),
    ),
    Family(
        "Sort, gather and local functions",
        "On the chip other engines sort and gather, and nobody documents their descriptors. Here they "
        "are commands of the "
        "tensor engine's queue in a form of their own: a bmodel that holds them runs on the emulator only.",
        _others(),
    ),
)

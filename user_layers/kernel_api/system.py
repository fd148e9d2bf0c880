"""Rows of the table: memories, order, layouts and what else issues no command."""

from __future__ import annotations

from user_layers.kernel_api.entry import Entry, Family, Limit

_NUMBERS = (
    ("global_mem_start_addr", "0x100000000", "The first address of DDR."),
    (
        "local_mem_start_addr",
        "0x08000000",
        "Where local memory begins for the controller; local_addr_t counts from 0.",
    ),
    ("local_mem_bank_per_npu", "8", "Banks of an NPU's local memory, 64 KiB each."),
    ("local_mem_size_per_npu", "524288", "Bytes of an NPU's local memory."),
    ("l2_sram_start_addr", "0x100A2000", "The first address in L2 that kernels may use."),
    ("l2_sram_size", "0x25E000", "Bytes in L2 that kernels may use."),
    (
        "dtcm_start_addr",
        "0x02020000",
        "The first address of the controller's own memory that kernels may use.",
    ),
    ("dtcm_size", "0x5F400", "Bytes of it."),
    ("lookup_table_start_addr", "0x323C00", "Where kernels may keep tables, as an offset in L2."),
    ("lookup_table_size", "0xDC400", "Bytes for tables."),
    ("eu_num", "32", "fp32 execution units of an NPU."),
    ("npu_num", "64", "NPUs, which is also the lanes of local memory."),
)
_POINTER = (
    "Poll first: commands that were issued run later. What a static compile records has not run, so a "
    "layer that uses "
    "it returns true from must_dynamic_run()."
)
_ORDER = "Not in a layer's local function, where the compiler orders the commands."


def _memories() -> tuple[Entry, ...]:
    out = [Entry(f"okk_{name}", text, value) for name, value, text in _NUMBERS]
    for name, text, limits in (
        ("global_mem_addr", "The controller's pointer to an absolute address in DDR.", ()),
        (
            "local_mem_addr",
            "The controller's pointer to byte addr of NPU idx.",
            (Limit("idx", 0, 63), Limit("addr", 0, 524287)),
        ),
        (
            "l2_sram_addr",
            "The controller's pointer to an absolute address in L2.",
            (Limit("addr", 0x1000_0000, 0x103F_FFFF, "addr 0x10000000..0x103FFFFF"),),
        ),
        (
            "dtcm_addr",
            "The controller's pointer to an address in its own memory.",
            (Limit("addr", 0x0202_0000, 0x0207_F3FF, "addr 0x02020000..0x0207F3FF"),),
        ),
    ):
        notes = (
            (_POINTER,) if name != "dtcm_addr" else ("Commands do not reach it, so recording may use it.",)
        )
        out.append(Entry(f"okk_{name}", text, limits=limits, notes=notes))
    return tuple(out)


def _layouts() -> tuple[Entry, ...]:
    slots = "(start_idx + shape.c + 63) // 64"
    out = [
        Entry("okk_start_npu_index", "The NPU that an address lies in.", "addr // 524288"),
        Entry(
            "okk_channle_num_per_npu",
            "Channel slots that each NPU needs for a tensor that starts on NPU start_idx (sic).",
            "(start_idx + num_channels + 63) // 64",
        ),
    ]
    for bits in (32, 16, 8):
        unit = 128 * 8 // bits
        channel = f"ceil(shape.h * shape.w / {unit}) * {unit}"
        out.append(
            Entry(
                f"okk_128_byte_aligned_stride_for_{bits}bit",
                f"Writes the strides of the aligned layout of {bits}-bit elements.",
                f"[{slots} * {channel}, {channel}, shape.w, 1]",
            )
        )
    return (
        *out,
        Entry(
            "okk_compact_stride",
            "Writes the strides of the compact layout.",
            f"[{slots} * shape.h * shape.w, shape.h * shape.w, shape.w, 1]",
        ),
        Entry(
            "okk_continuous_stride",
            "Writes the strides of the continuous layout of system memory.",
            "[shape.c * shape.h * shape.w, shape.h * shape.w, shape.w, 1]",
        ),
        Entry(
            "okk_64_byte_aligned_feature_size",
            "Bytes of h * w 32-bit elements, rounded up to 64.",
            "ceil(h * w * 4 / 64) * 64",
        ),
    )


def _order(prefix: str) -> tuple[Entry, ...]:
    return (
        Entry(
            f"{prefix}_initialize",
            "Begins the numbering of commands again. Call it first in a free kernel.",
            notes=(f"In a layer the ids go on. Not inside a parallel section. {_ORDER}",),
        ),
        Entry(
            f"{prefix}_poll",
            "Waits until all commands that were issued are done.",
            notes=(f"Refused inside a parallel section. {_ORDER}", "Issues no command and changes no id."),
        ),
    )


FAMILIES = (
    Family(
        "Order",
        "Commands run one after another, whatever their engine, except between okk_parallel_start and "
        "okk_parallel_end. "
        "`bm_initialize` and `bm_poll` are the same functions under other names.",
        (
            *_order("okk"),
            *_order("bm"),
            Entry(
                "okk_parallel_start",
                "From here on GDMA and BDC commands only keep the order of their own engine.",
                notes=(f"Both engines wait for what came before. Sections cannot be nested. {_ORDER}",),
            ),
            Entry(
                "okk_parallel_end",
                "Ends the section: what comes next waits for both engines.",
                notes=(f"Refused where none is open. Issues no command. {_ORDER}",),
            ),
            Entry("okk_is_parallel_state", "Whether a parallel section is open."),
            Entry(
                "okk_set_id_node",
                "Sets the newest command ids, a node of {unsigned bd, gdma, in_parallel}.",
                notes=(
                    "Refused in layers, inside a parallel section, and for ids that go back while the "
                    "check is enabled.",
                ),
            ),
            Entry(
                "okk_get_id_node",
                "Writes the newest command ids to such a node; in a parallel section those of its start.",
            ),
            Entry(
                "okk_enable_check_id_node",
                "From here on okk_set_id_node refuses ids that go back (the default).",
            ),
            Entry(
                "okk_disable_check_id_node", "From here on it accepts them, after a wait for both engines."
            ),
            Entry(
                "okk_dump_registered_kernel_funcs", "Writes the names of the registered kernels to the log."
            ),
        ),
    ),
    Family(
        "Memories",
        "`bm_atomic.h` has the same functions with `bm_` in place of `okk_`.",
        _memories(),
    ),
    Family(
        "Layouts",
        "What the words above mean, as functions. Strides count elements.",
        _layouts(),
    ),
)

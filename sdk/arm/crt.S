/* Vectors, reset and exceptions of the ARM926EJ-S controller. */
#include "fw_arm.h"

    .syntax unified
    .arm

    /* Page 0 is readable by nobody (a NULL pointer faults), so there are branches here and no loads. */
    .section .vectors, "ax", %progbits
    .global _vectors
_vectors:
    b   _reset
    b   _undefined
    b   _software
    b   _prefetch
    b   _data
    b   .
    b   _irq
    b   _fiq

    /* Filled in when the image is made; see firmware_sim/arm/images.py. */
    .section .header_tcm, "a", %progbits
    .space FW_ARM_HEADER_BYTES
    .section .header_ddr, "a", %progbits
    .space FW_ARM_HEADER_BYTES

    .section .text.reset, "ax", %progbits
_reset:
    /* a stack for aborts and one for undefined instructions, interrupts off; then supervisor mode */
    ldr r0, =__stack_faults
    msr cpsr_c, #0xD7
    mov sp, r0
    msr cpsr_c, #0xDB
    mov sp, r0
    msr cpsr_c, #0xD3
    ldr sp, =__stack_top
    mov r0, #0
    ldr r1, =__dtcm_bss_start
    ldr r2, =__dtcm_bss_end
1:  cmp r1, r2
    strlo r0, [r1], #4
    blo 1b
    ldr r1, =__ddr_bss_start
    ldr r2, =__ddr_bss_end
2:  cmp r1, r2
    strlo r0, [r1], #4
    blo 2b
    mov r11, #0
    mov lr, #0
    bl  fw_arm_main
    b   .
    .ltorg

    /* ---- exceptions: note what happened and wait for the reset ---- */
    .macro exception name, number, back
\name:
    sub lr, lr, #\back
    push {r0-r3, r12, lr}
    mov r0, #\number
    mov r1, lr
    b   fault
    .endm
    exception _undefined, 1, 4
    exception _software, 2, 4
    exception _prefetch, 3, 4
    exception _data, 4, 8
    exception _irq, 6, 4
    exception _fiq, 7, 4
fault:
    /* the registers of the interrupted mode, which is supervisor */
    mrs r2, cpsr
    msr cpsr_c, #0xD3
    mov r3, lr
    mov r12, sp
    msr cpsr_c, r2
    push {r12}
    mov r2, r3
    pop {r3}
    b   fw_arm_fault /* (number, pc, lr, sp) */

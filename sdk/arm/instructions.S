/* What C has no words for on the ARM926EJ-S controller: waiting, switching stacks, checked division. */
    .syntax unified
    .arm

    /* ---- void fw_arm_wait(void): until the next interrupt ---- */
    .section .text.fw_arm_wait, "ax", %progbits
    .global fw_arm_wait
    .type fw_arm_wait, %function
fw_arm_wait:
    mov r0, #0
    mcr p15, 0, r0, c7, c0, 4
    bx  lr

    /* ---- int fw_arm_save(fw_arm_context *), void fw_arm_restore(fw_arm_context *) ---- */
    .section .text.fw_arm_save, "ax", %progbits
    .global fw_arm_save
    .type fw_arm_save, %function
fw_arm_save:
    stmia r0, {r4-r11, sp, lr}
    mov r0, #0
    bx  lr

    .section .text.fw_arm_restore, "ax", %progbits
    .global fw_arm_restore
    .type fw_arm_restore, %function
fw_arm_restore:
    ldmia r0, {r4-r11, sp, lr}
    mov r0, #1
    bx  lr

    /* ---- integer division: by zero it is a fault, as on the host ---- */
    .macro checked name
    .section .text.__wrap_\name, "ax", %progbits
    .global __wrap_\name
    .type __wrap_\name, %function
__wrap_\name:
    cmp r1, #0
    bne __real_\name
    b   fw_arm_divided_by_zero
    .endm
    checked __aeabi_idiv
    checked __aeabi_uidiv
    checked __aeabi_idivmod
    checked __aeabi_uidivmod

    .macro checked64 name
    .section .text.__wrap_\name, "ax", %progbits
    .global __wrap_\name
    .type __wrap_\name, %function
__wrap_\name:
    orrs r12, r2, r3
    bne __real_\name
    b   fw_arm_divided_by_zero
    .endm
    checked64 __aeabi_ldivmod
    checked64 __aeabi_uldivmod

    .section .text.fw_arm_divided_by_zero, "ax", %progbits
fw_arm_divided_by_zero:
    .word 0xE7F0DBF0 /* an undefined instruction; firmware_sim/arm/machine.py knows it */

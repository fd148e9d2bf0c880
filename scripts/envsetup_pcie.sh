# shellcheck shell=bash
# Sets this shell up for compiling for a card: source scripts/envsetup_pcie.sh   (bash or zsh)
_tpulayer_status=0
if [ -n "${ZSH_VERSION:-}" ] && [ "${ZSH_EVAL_CONTEXT#*:file}" != "$ZSH_EVAL_CONTEXT" ]; then
    eval '_tpulayer_install="${${(%):-%x}:A:h:h}/install"'
elif [ -n "${BASH_VERSION:-}" ] && [ "${BASH_SOURCE[0]}" != "$0" ]; then
    _tpulayer_install=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)/install
else
    echo "error: this file sets up a shell: source it   (bash or zsh)" >&2
    _tpulayer_status=2
fi
if [ "$_tpulayer_status" -eq 0 ]; then
    export BMCOMPILER_PLUGIN_PATH="$_tpulayer_install/plugin"
    unset BMRUNTIME_FIRMWARE_PATH # a card runs what load_firmware put there
    _tpulayer_rest=":${LD_LIBRARY_PATH:-}:"
    case "$_tpulayer_rest" in
    *":$_tpulayer_install/lib:"*) # the emulated chip's libraries have the names of the card's
        _tpulayer_rest="${_tpulayer_rest%%":$_tpulayer_install/lib:"*}:${_tpulayer_rest#*":$_tpulayer_install/lib:"}"
        _tpulayer_rest="${_tpulayer_rest#:}"
        export LD_LIBRARY_PATH="${_tpulayer_rest%:}"
        ;;
    esac
    echo "pcie: BMCOMPILER_PLUGIN_PATH names $_tpulayer_install/plugin; the emulated chip's firmware and libraries are out of the way" >&2
    echo "  a card needs the vendor's libbmlib.so and runtime on LD_LIBRARY_PATH; this toolkit's images have not been run on one" >&2
    unset _tpulayer_install _tpulayer_rest _tpulayer_status
else
    eval "unset _tpulayer_install _tpulayer_status; return $_tpulayer_status 2>/dev/null || exit $_tpulayer_status"
fi

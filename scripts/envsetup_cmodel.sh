# shellcheck shell=bash
# Sets this shell up for the emulated chip: source scripts/envsetup_cmodel.sh   (bash or zsh)
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
    case ":${LD_LIBRARY_PATH:-}:" in
    *":$_tpulayer_install/lib:"*) ;;
    *) export LD_LIBRARY_PATH="$_tpulayer_install/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
    esac
    export BMRUNTIME_FIRMWARE_PATH="$_tpulayer_install/firmware" BMCOMPILER_PLUGIN_PATH="$_tpulayer_install/plugin"
    echo "cmodel: programs run on the emulated chip: LD_LIBRARY_PATH has $_tpulayer_install/lib," >&2
    echo "  BMRUNTIME_FIRMWARE_PATH and BMCOMPILER_PLUGIN_PATH name firmware/ and plugin/ beside it; \`tpulayer build_layers\` makes them" >&2
    unset _tpulayer_install _tpulayer_status
else
    eval "unset _tpulayer_install _tpulayer_status; return $_tpulayer_status 2>/dev/null || exit $_tpulayer_status"
fi

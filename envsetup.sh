# shellcheck shell=bash
# Sets this machine up for tpulayer, and this shell: source envsetup.sh   (bash or zsh)
#
# The first time it makes .venv with the locked packages; later it only puts the commands on the PATH. It ends with
# code 3 and says what to do when Python 3.10+ or a way to make .venv is missing. An interrupted set-up is repaired
# by the next run. `bash envsetup.sh` does the machine's part alone. TPULAYER_PYTHON chooses the Python.

# ---- the shell's part (bash and zsh) ----

# What the installed state depends on: a change of any of these files, or of the folder, sets up again.
_tpulayer_state() {
    (
        cd "$1" && printf '%s\n' "$1" &&
            cat envsetup.sh pyproject.toml requirements.lock user_layers/commands.py user_layers/cli/completing.py |
            cksum
    )
}

_tpulayer_ready() {
    [ -x "$1/.venv/bin/tpulayer" ] && [ -f "$1/.venv/tpulayer-state" ] &&
        [ "$(_tpulayer_state "$1")" = "$(cat "$1/.venv/tpulayer-state")" ] &&
        "$1/.venv/bin/python" -c '' >/dev/null 2>&1
}

_tpulayer_shell() {
    local folder=$1 shell=$2 entry
    _tpulayer_ready "$folder" || bash "$folder/envsetup.sh" || return 3
    for entry in "$folder/.venv/bin" "$folder/tool"; do
        case ":$PATH:" in
        *":$entry:"*) ;;
        *) PATH="$entry:$PATH" ;;
        esac
    done
    export PATH
    export TPULAYER_HOME="$folder"
    hash -r 2>/dev/null
    case $- in # completion is for people; scripts that source this file need none
    *i*) . "$folder/.venv/tpulayer-completion.$shell" ;;
    esac
    return 0
}

# ---- the machine's part (bash, in a process of its own) ----

_tpulayer_say() { printf '%s\n' "$*" >&2; }

_tpulayer_python() {
    local name
    for name in ${TPULAYER_PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    _tpulayer_say "error: no Python 3.10 or newer was found (tried ${TPULAYER_PYTHON:-python3 and python3.10 to python3.13})"
    _tpulayer_say "  hint: install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: TPULAYER_PYTHON=/path/to/python3"
    return 3
}

# A usable .venv: with the standard library's venv, or with virtualenv where only pip is there.
_tpulayer_venv() {
    local python=$1 bootstrap=.venv-bootstrap
    if .venv/bin/python -m pip --version >/dev/null 2>&1 &&
        .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 10))' &&
        grep -qF "$PWD/.venv/bin/" .venv/bin/pip; then # a moved or copied folder has scripts of its old place
        return 0
    fi
    rm -rf .venv "$bootstrap"
    if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        "$python" -m venv .venv || return 3
    elif "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip install --quiet --disable-pip-version-check --require-hashes --target "$bootstrap" \
            -r requirements-bootstrap.lock || return 3
        PYTHONPATH="$bootstrap" "$python" -m virtualenv --quiet .venv || return 3
        rm -rf "$bootstrap"
    else
        _tpulayer_say "error: $python ($("$python" --version 2>&1)) has neither venv nor pip"
        _tpulayer_say "  hint: install one of them (Debian, Ubuntu: apt-get install python3-venv) and source envsetup.sh again"
        return 3
    fi
}

_tpulayer_machine() {
    local python
    cd "$1" || return 3
    if _tpulayer_ready "$1"; then
        return 0
    fi
    rm -f .venv/tpulayer-state
    python=$(_tpulayer_python) || return 3
    _tpulayer_say "setting up $1/.venv with $("$python" --version 2>&1) (once; a minute or two)"
    _tpulayer_venv "$python" || return 3
    _tpulayer_say "installing the packages of requirements.lock"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock >&2 &&
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e . >&2 &&
        .venv/bin/tpulayer completion bash >.venv/tpulayer-completion.bash &&
        .venv/bin/tpulayer completion zsh >.venv/tpulayer-completion.zsh
    if [ $? -ne 0 ]; then
        _tpulayer_say "error: the packages could not be installed; the messages above say why"
        _tpulayer_say "  hint: mend it (a network connection to a Python package index is needed) and source envsetup.sh again"
        return 3
    fi
    _tpulayer_state "$1" >.venv/tpulayer-state || return 3
    _tpulayer_say "ready"
}

# ---- which part is asked for ----

if [ -n "${ZSH_VERSION:-}" ]; then
    eval '_tpulayer_shell "${${(%):-%x}:A:h}" zsh'
elif [ -z "${BASH_VERSION:-}" ]; then
    echo "error: envsetup.sh is for bash and zsh" >&2
    false
elif [ "${BASH_SOURCE[0]}" = "$0" ]; then
    _tpulayer_machine "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)"
    exit $?
else
    _tpulayer_shell "$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)" bash
fi
if [ $? -eq 0 ]; then
    unset -f _tpulayer_state _tpulayer_ready _tpulayer_shell _tpulayer_say _tpulayer_python _tpulayer_venv _tpulayer_machine
else
    unset -f _tpulayer_state _tpulayer_ready _tpulayer_shell _tpulayer_say _tpulayer_python _tpulayer_venv _tpulayer_machine
    return 3
fi

#!/bin/sh
# Runs the check of this pack on a device. It needs no root, and changes nothing outside RESULTS.
# Exit codes: 0 all bits are equal, 1 something differs or failed, 2 wrong words, 3 the machine lacks something or the
# pack is damaged.
set -u

usage() {
    cat <<'END'
usage: ./run.sh [--out RESULTS] [--device N] [--repeat N] [--load-firmware] [--load-firmware-first]
                [--step-limit SECONDS] [--limit SECONDS]
  --out RESULTS          where the results go; result/ beside this script by default
  --device N             number of the device, 0 by default
  --repeat N             launches of each net, 5 by default
  --load-firmware        load the pack's firmware, then run the dynamic nets too; read README.txt first
  --load-firmware-first  load it before anything runs
  --step-limit SECONDS   for a single call of the libraries, 120 by default
  --limit SECONDS        for everything, 3600 by default
The libraries libbmlib and libbmrt are looked for in LD_LIBRARY_PATH, then where libsophon puts them.
END
}

fail() { # CODE MESSAGE HINT
    echo "error: $2" >&2
    echo "  hint: $3" >&2
    exit "$1"
}

number() { # OPTION WORD LEAST MOST, which the program check knows too
    case $2 in
    *[!0123456789]* | '' | ?????????*) ;;
    *) [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] && return ;;
    esac
    fail 2 "$1 $2: a number from $3 to $4 is needed" "./run.sh --help"
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 3
out=$here/result
limit=3600
words=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --load-firmware | --load-firmware-first) words="$words $1" ;;
    --out | --device | --repeat | --step-limit | --limit)
        case ${2-} in
        '' | --*) fail 2 "$1 needs a word behind it" "./run.sh --help" ;;
        esac
        case $1 in
        --out) out=$2 ;;
        --device) number "$1" "$2" 0 1023 ;;
        --repeat) number "$1" "$2" 1 1000 ;;
        --step-limit) number "$1" "$2" 1 86400 ;;
        --limit)
            number "$1" "$2" 1 864000
            limit=$(expr "$2" + 0) # without zeros before it
            ;;
        esac
        [ "$1" = --out ] || words="$words $1 $2"
        shift
        ;;
    *) fail 2 "unknown word $1" "./run.sh --help" ;;
    esac
    shift
done

case $out in
/*) ;;
*) out=./$out ;;
esac
[ ! -e "$out" ] || [ -d "$out" ] || fail 2 "--out $out: this is not a folder" "give another one"

machine=$(uname -m)
case $machine in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
esac
program=$here/bin/$machine/check
[ -f "$program" ] || fail 3 "this pack has no programs for $machine" \
    "build them here: make -C sources CC=cc, see README.txt; or pack again with --machine $machine"
[ -x "$program" ] || fail 3 "$program cannot be executed" "chmod +x $here/bin/*/*, or copy the pack with cp -a or tar"
mkdir -p "$out" && out=$(CDPATH='' cd -- "$out" && pwd) || fail 3 "cannot make the folder $out" "./run.sh --out FOLDER"

# The programs ask for libbmlib.so and libbmrt.so. Packages without the files for developers have these only with a
# number behind; links with the plain names are made in RESULTS then.
places=$(printf '%s' "${LD_LIBRARY_PATH:-}" | tr ':' '\n'
    printf '\n%s\n' /opt/sophon/libsophon-current/lib /system/lib /usr/local/lib /usr/lib "/usr/lib/$machine-linux-gnu")
path=${LD_LIBRARY_PATH:-}
rm -rf "$out/lib"
for name in libbmlib libbmrt; do
    found=
    while IFS= read -r place; do
        [ -n "$place" ] || continue
        for file in "$place/$name.so" "$place/$name".so.*; do
            if [ -e "$file" ]; then
                found=$file
                break 2
            fi
        done
    done <<END
$places
END
    [ -n "$found" ] || fail 3 "$name.so is nowhere in LD_LIBRARY_PATH and not where libsophon puts it" \
        "install libsophon, or LD_LIBRARY_PATH=FOLDER ./run.sh"
    case $found in
    */$name.so) ;;
    *)
        mkdir -p "$out/lib" && ln -sf "$(CDPATH='' cd -- "$(dirname -- "$found")" && pwd)/${found##*/}" "$out/lib/$name.so" ||
            fail 3 "cannot make a link in $out/lib" "./run.sh --out FOLDER"
        case :$path: in *:$out/lib:*) ;; *) path=$out/lib${path:+:$path} ;; esac
        ;;
    esac
    case :$path: in *:${found%/*}:*) ;; *) path=${path:+$path:}${found%/*} ;; esac
done
LD_LIBRARY_PATH=$path
export LD_LIBRARY_PATH
missing=$(LD_TRACE_LOADED_OBJECTS=1 "$program" 2>&1) || fail 3 "$program does not start: $missing" \
    "a 64-bit Linux with glibc 2.17 or newer is needed"
case $missing in
*"not found"*) fail 3 "libraries are missing: $(printf '%s\n' "$missing" | grep 'not found' | tr -s '\t\n' ' ')" \
    "add their folders to LD_LIBRARY_PATH" ;;
esac

# The program has limits of its own; this one is for a program that cannot be ended.
guard=
command -v timeout >/dev/null 2>&1 && guard="timeout -k 10 $((limit + 60))"
rm -f "$out/result.json"
echo "running on $machine with $LD_LIBRARY_PATH; what the libraries say goes to $out/log.txt"
# shellcheck disable=SC2086 # words and guard are lists
$guard "$program" "$here" "$out" $words >"$out/log.txt" 2>&1
code=$?
grep '^error: ' "$out/log.txt" >&2
if [ ! -f "$out/result.json" ]; then
    case $code in
    2 | 3) exit $code ;; # the reason was just shown
    *) fail 3 "no result was written (exit code $code)" "see $out/log.txt; copy the pack again if it says nothing" ;;
    esac
fi
tail -n 1 "$out/log.txt" # the program's own last word
echo "send back: $out (without lib/), or at least result.json and log.txt"
exit $code

#!/bin/sh
# Build the environment of specs/horovod.yaml, once for each content of this folder, and print its folder:
#
#     PATH="$(sh specs/horovod/environment.sh)/bin:$PATH" runspec apply specs/horovod.yaml
#
# Horovod is compiled, with MPI and Gloo, for TensorFlow on processors: some minutes on two cores, up to 2 GB of memory,
# and 1.4 GB on the disk. It needs Python 3.9 to 3.11 and a C++ compiler (Debian: apt-get install g++).
set -eu

cd "$(dirname "$0")"
unset PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH VIRTUAL_ENV # bytecode spares each rank some seconds
HOROVOD=0.28.1

fail() {
    echo "specs/horovod/environment.sh: $1" >&2
    exit 69
}

find_python() {
    for name in python3.11 python3.10 python3.9 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 12))' 2>/dev/null; then
            "$name" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    fail "no Python 3.9, 3.10 or 3.11: TensorFlow 2.15 is for no other"
}

install() { # WORD...
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$place/bin/python" "$@"
    else
        "$place/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

compile() { # Horovod without -g, which its own build sets; a wheel of it would name the place of this MPI, so none is kept
    printf '#!/bin/sh\nexec c++ "$@" -g0\n' >"$place/bin/c++-without-g" &&
        chmod 755 "$place/bin/c++-without-g" &&
        PATH="$place/bin:$PATH" VIRTUAL_ENV="$place" CXX="$place/bin/c++-without-g" MAKEFLAGS=-j2 \
            UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_TENSORFLOW=1 \
            HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITHOUT_GPU=1 \
            install --no-build-isolation --no-deps "horovod==$HOROVOD"
}

build() {
    rm -rf "$place"
    "$python" -m venv "$place" &&
        install --requirement requirements.txt &&
        compile &&
        "$place/bin/python" -c 'import horovod.tensorflow.keras as hvd; assert hvd.gloo_built() and hvd.mpi_built()' &&
        "$place/bin/python" -c 'import sklearn.datasets'
}

python=$(find_python)
command -v c++ >/dev/null || fail "there is no C++ compiler (Debian: apt-get install g++)"
key=$({ "$python" -V && cat requirements.txt environment.sh; } | cksum | cut -d ' ' -f 1)
place="${XDG_CACHE_HOME:-$HOME/.cache}/runspec-horovod/$key"
mkdir -p "${place%/*}"
(
    flock 9 # an environment cannot be moved: only one process fills it
    [ ! -e "$place/.complete" ] || exit 0
    echo "specs/horovod/environment.sh: compiling Horovod $HOROVOD, which takes some minutes" >&2
    build >"$place.log" 2>&1 || {
        tail -n 20 "$place.log" >&2
        exit 1
    }
    rm "$place.log"
    touch "$place/.complete"
) 9>"$place.lock" || fail "Horovod $HOROVOD cannot be built"
echo "$place"

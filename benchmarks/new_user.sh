#!/usr/bin/env bash
# What a new user waits for and downloads: a user without make, a clone or anything in a cache, from the wheel of `make dist` to
# the first answer (core), to the first report ([spark] and setup), through the notebook, and with uvx. Needs root, to become that
# user; Java is the machine's. `JAVA=DIR` names another one; `STEPS="core uvx"` leaves steps out.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3.11} java=${JAVA:-$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")}
wheel=$(ls dist/*.whl) scratch=$(mktemp -d) user=replica-audit-trial
trap 'userdel "$user"; rm -rf "$scratch"' EXIT
# With a home: Java takes it from the list of users.
useradd --system --no-create-home --home-dir "$scratch/home" "$user"
mkdir "$scratch/bin" "$scratch/home" "$scratch/tmp"
# What every system has, and no Java and no make.
for tool in bash sh env ls cat realpath dirname basename readlink uname id mkdir rm cp mv sed grep tr sleep ps nice; do ln -s "$(command -v $tool)" "$scratch/bin"; done
ln -s "$python" "$scratch/bin/python3"
cp "$wheel" "$scratch/home"; wheel=$scratch/home/$(basename "$wheel")
cp -r data docs/notebook.ipynb "$scratch/home"
chmod 755 "$scratch"; chown -R "$user" "$scratch/home" "$scratch/tmp"

# as COMMAND...: by the user, whose environment has nothing else; AS_JAVA is set once it has Java.
as() {
  (cd "$scratch/home" && setpriv --reuid "$user" --clear-groups env -i HOME="$scratch/home" TMPDIR="$scratch/tmp" PATH="$scratch/bin" \
    ${SSL_CERT_FILE:+SSL_CERT_FILE="$SSL_CERT_FILE"} ${AS_JAVA:+JAVA_HOME="$AS_JAVA"} "$@")
}

# timed WHAT STATUS COMMAND...: prints how long a command takes, and stops where it ends with another status.
timed() {
  local what=$1 expected=$2 began=$SECONDS status=0
  shift 2
  as "$@" >"$scratch/said" 2>&1 || status=$?
  [ "$status" = "$expected" ] || { cat "$scratch/said"; echo "$what: ended with $status, not $expected"; exit 1; }
  echo "$what: $((SECONDS - began)) s"
}

# installed NAME WHAT...: an environment with packages, with its downloads (pyspark's is built into a wheel of that size) and its size.
installed() {
  local name=$1 house=$scratch/home/wheels-$1
  shift
  [ -d "$scratch/home/$name" ] || as python3 -m venv "$name"
  timed "$name: downloads" 0 "$name/bin/python" -m pip wheel --quiet --disable-pip-version-check --use-pep517 --wheel-dir "$house" "$@"
  timed "$name: pip install" 0 "$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$house" "$@"
  echo "$name: $(du -sm "$house" | cut -f1) MB downloaded, $(du -sm "$scratch/home/$name" | cut -f1) MB installed"
}

for step in ${STEPS:-core uvx spark notebook}; do
  case $step in
    core)
      installed core "$wheel"
      timed "core: show" 1 core/bin/replica-audit show data/samples/last-replica-standing
      ;;
    uvx)
      installed uv uv
      timed "uvx: show" 1 uv/bin/uvx --quiet --python python3 --from "$wheel" replica-audit show data/samples/last-replica-standing
      timed "uvx: show, the second time" 1 uv/bin/uvx --quiet --python python3 --from "$wheel" replica-audit show data/samples/last-replica-standing
      ;;
    spark)
      installed spark "$wheel[spark]"
      # Found in /usr/lib/jvm too, without JAVA_HOME.
      AS_JAVA=$java
      timed "spark: setup" 0 spark/bin/replica-audit setup
      echo "spark: $(du -sm "$scratch/home/.cache" | cut -f1) MB in the cache directory"
      timed "spark: run" 1 spark/bin/replica-audit run data/samples/last-replica-standing
      [ -f "$scratch/home/replica-audit-report/index.html" ]
      ;;
    notebook)
      installed spark nbconvert ipykernel
      timed "notebook: executed" 0 env SPARK_LOCAL_IP=127.0.0.1 spark/bin/python -m nbconvert --to notebook --execute notebook.ipynb --output ran.ipynb
      ;;
  esac
done

# `./khost lint`: the formatter and one linter for each language, over what changed or over the whole tree.
# Sourced by the launcher, whose functions and folders it uses; lint_main is called with the command's arguments.
# shellcheck shell=bash

: "${root:?lint.sh is sourced by ./khost}" "${cache:?}" "${build:?}" "${log:?}"
# shellcheck source=tests/lint/tidy.sh
. "$root/tests/lint/tidy.sh"

# All versions, in one place. clang-format and ruff must be these: others format and find differently.
CLANG=14
RUFF=0.17.6
# Debian 12's: luacheck 1.1.0, shellcheck 0.9.0. Others may find more or less.

QUICK="clang-format luacheck ruff shellcheck"
CI_COMMITS=20

lint_usage() {
  cat <<'END'
usage: ./khost lint [--all] [--tidy] [--fix] [--since COMMIT] [--only LINTER] [--no-install] [FILES]

Checks C++ and CUDA with clang-format and clang-tidy, JavaScript with clang-format, Lua with luacheck, Python with
ruff, shell scripts with shellcheck. Each finding names file and line. What is missing is installed first.
tests/data/kernels is left out: its files are hostile fixtures.

Which files:
  FILES            these
  --all            every file that git knows; clang-tidy looks at those that changed, unless --tidy is given too
  --since COMMIT   what differs from that commit, with uncommitted and new files
  (nothing)        what differs from where this branch left origin/main, or main where there is no origin. On main
                   itself: what is not committed or not pushed, and where that is nothing, the last commit.
  With CI=true, where a clone knows one branch only, nothing means --all; clang-tidy then looks at what changed since
  KHOST_LINT_SINCE where that names a commit, else in the last 20 commits, newest first.

clang-tidy takes about 10 s a file. It needs build/compile_commands.json, which `./khost setup` makes, and without it
is left out with a message. It begins no file after 75 s (KHOST_LINT_TIDY_S) and says how many it left; --tidy lifts
the limit.

  --fix            formats C++, and applies what ruff can mend by itself
  --only LINTER    one of clang-format, clang-tidy, luacheck, ruff, shellcheck; may be repeated
  --no-install     what is missing is named, not installed

Exit codes: 0 nothing found, 1 findings, 2 misuse, 3 nothing found but a linter is missing.
END
}

misuse() {
  say "lint: $1"
  lint_usage >&2
  exit 2
}

parse_lint() {
  lint_all='' lint_tidy='' lint_fix='' lint_since='' lint_only='' lint_install=1 lint_files=()
  while [ $# -gt 0 ]; do
    case $1 in
      --all) lint_all=1 ;;
      --tidy) lint_tidy=1 ;;
      --fix) lint_fix=1 ;;
      --no-install) lint_install='' ;;
      --since) [ $# -gt 1 ] || misuse "--since needs a COMMIT"
        lint_since=$2
        shift ;;
      --only) [ $# -gt 1 ] || misuse "--only needs a LINTER"
        [[ " $QUICK clang-tidy " == *" $2 "* ]] || misuse "--only $2: expected one of $QUICK clang-tidy"
        lint_only="$lint_only $2"
        shift ;;
      -h | --help) lint_usage; exit 0 ;;
      -*) misuse "unknown option '$1'" ;;
      *) [ -f "$1" ] || misuse "$1: no such file"
        lint_files+=("$(realpath --relative-to="$root" "$1")") ;;
    esac
    shift
  done
}

is_wanted() { [ -z "$lint_only" ] || [[ " $lint_only " == *" $1 "* ]]; }

knows() { git rev-parse --quiet --verify "$1^{commit}" >/dev/null; }

# The commit against which this branch changed something.
base_of_branch() {
  local ref base
  for ref in origin/main main; do
    knows "$ref" || continue
    base=$(git merge-base HEAD "$ref") || continue
    if [ "$base" != "$(git rev-parse HEAD)" ]; then
      echo "$base"
      return
    fi
  done
  if [ -z "$(git status --porcelain | head -n 1)" ] && knows HEAD~1; then
    echo HEAD~1
  else
    echo HEAD
  fi
}

# Files that differ from a commit and are still there, new ones included.
changed_since() {
  git diff --name-only --diff-filter=d "$1" --
  git ls-files --others --exclude-standard
}

# What clang-tidy looks at in CI: a clean clone of one branch knows its history and what it was told, no more.
changed_in_ci() {
  if [ -n "${KHOST_LINT_SINCE:-}" ] && knows "$KHOST_LINT_SINCE"; then
    changed_since "$KHOST_LINT_SINCE"
  else
    git log --name-only --format= --diff-filter=d -n "$CI_COMMITS" | awk '!seen[$0]++ && NF'
  fi
}

# Prints the files of `lint_chosen` whose name ends like the pattern says.
chosen() { printf '%s\n' "${lint_chosen[@]}" | grep -E "$1" || true; }

choose_files() {
  local list
  if [ "${#lint_files[@]}" -gt 0 ]; then
    list=$(printf '%s\n' "${lint_files[@]}")
    tidy_list=$list
  else
    git rev-parse --quiet --git-dir >/dev/null 2>&1 || misuse "this is no git checkout: name the FILES"
    [ -z "$lint_since" ] || knows "$lint_since" || misuse "--since $lint_since: no such commit here"
    if [ -n "${CI:-}" ] && [ -z "$lint_since" ]; then
      lint_all=1
      tidy_list=$(changed_in_ci)
    else
      tidy_list=$(changed_since "${lint_since:-$(base_of_branch)}")
    fi
    list=$tidy_list
    if [ -n "$lint_all" ]; then
      list=$(git ls-files; git ls-files --others --exclude-standard)
      [ -z "$lint_tidy" ] || tidy_list=$list
    fi
  fi
  mapfile -t lint_chosen < <(grep -v '^tests/data/kernels/' <<<"$list" | while read -r file; do
    [ ! -f "$file" ] || echo "$file"
  done)
}

# Scripts without an ending are known by their first line.
shell_scripts() {
  chosen '\.(sh|bash)$'
  local file
  while read -r file; do
    head -c 64 "$file" | head -n 1 | grep -qE '^#!.*\b(ba)?sh$' && echo "$file"
  done < <(chosen '(^|/)[^.]+$') || true
}

# install_package PACKAGE: one of Debian's, by its name.
install_package() {
  command -v apt-get >/dev/null || fail "missing: $1" "install it (Debian's name) with this system's package manager"
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "missing: $1, and there is no sudo" "as root: apt-get install --no-install-recommends $1"
  fi
  [ -n "${lint_refreshed:-}" ] ||
    step "refreshing the package lists" "check the network and /etc/apt/sources.list" as_root apt-get update
  lint_refreshed=1
  step "installing $1" "as root: apt-get install --no-install-recommends $1" \
    as_root apt-get install -y --no-install-recommends "$1"
}

# need PROGRAM PACKAGE: fails where the program is missing and may not be installed.
need() {
  command -v "$1" >/dev/null && return
  if [ -z "$lint_install" ]; then
    say "lint: $1 is missing (Debian's package $2)"
    lint_missing="$lint_missing $1"
    return 1
  fi
  install_package "$2"
}

# ruff of the pinned version, in a virtual environment of its own.
need_ruff() {
  ruff=$cache/lint-ruff-$RUFF/bin/ruff
  [ -x "$ruff" ] && return
  if [ -z "$lint_install" ]; then
    say "lint: ruff $RUFF is missing (a virtual environment in $cache)"
    lint_missing="$lint_missing ruff"
    return 1
  fi
  /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || install_package python3-venv
  step "creating a virtual environment for ruff" "remove $cache/lint-ruff-$RUFF and try again" \
    /usr/bin/python3 -m venv "$cache/lint-ruff-$RUFF"
  step "installing ruff $RUFF" "check the network, and that pip finds ruff==$RUFF" \
    "$cache/lint-ruff-$RUFF/bin/pip" install --disable-pip-version-check "ruff==$RUFF"
}

# found LINTER TEXT: prints findings; the text of a clean run is empty.
found() {
  [ -n "$2" ] || return 0
  printf '%s\n' "$2"
  lint_found="$lint_found $1"
}

# linted LINTER COMMAND...: runs it over the files on standard input. What it prints when it fails are findings; a
# linter that fails in silence is one too.
linted() {
  local linter=$1 output code=0
  shift
  output=$(xargs -d '\n' "$@" 2>&1) || code=$?
  [ "$code" = 0 ] || found "$linter" "${output:-$linter failed with exit code $code and said nothing}"
}

check_format() {
  local files output code=0
  files=$(chosen '\.(cpp|h|cu|cuh|js)$')
  [ -n "$files" ] || return 0
  need "clang-format-$CLANG" "clang-format-$CLANG" || return 0
  [ -z "$lint_fix" ] || xargs -d '\n' "clang-format-$CLANG" -i <<<"$files"
  output=$(xargs -d '\n' "clang-format-$CLANG" --dry-run --Werror <<<"$files" 2>&1) || code=$?
  if [ "$code" != 0 ] && grep -q ': code should be clang-formatted' <<<"$output"; then
    # One line a place instead of three.
    output=$(sed -n 's/: error: code should be clang-formatted.*/: not as .clang-format has it/p' <<<"$output" |
      sort -u -t: -k1,1 -k2,2n)
    say "lint: ./khost lint --fix formats what is not formatted"
  fi
  [ "$code" = 0 ] || found clang-format "${output:-clang-format failed with exit code $code and said nothing}"
  # clang-format leaves comments to people.
  found clang-format "$(LC_ALL=C.UTF-8 xargs -d '\n' grep -nHE '^.{121,}' <<<"$files" |
    sed -E 's/^([^:]*:[0-9]+):.*/\1: longer than 120 columns; break the comment at a sentence/')"
}

check_lua() {
  local files
  files=$(chosen '\.lua$')
  [ -n "$files" ] || return 0
  need luacheck lua-check || return 0
  linted luacheck luacheck --config .luacheckrc --formatter plain <<<"$files"
}

check_python() {
  local files fix=()
  files=$(chosen '\.py$')
  [ -n "$files" ] || return 0
  need_ruff || return 0
  [ -z "$lint_fix" ] || fix=(--fix)
  linted ruff "$ruff" check --quiet --no-cache --force-exclude --output-format concise "${fix[@]}" <<<"$files"
}

check_shell() {
  local files
  files=$(shell_scripts)
  [ -n "$files" ] || return 0
  need shellcheck shellcheck || return 0
  linted shellcheck shellcheck --format gcc <<<"$files"
}

# What clang-tidy has to read: changed sources, and the sources of changed headers.
check_tidy() {
  local sources
  sources=$(sed -nE 's/\.h$/.cpp/; /\.cpp$/p' <<<"$tidy_list" | awk '!/^tests\/kernels\// && !seen[$0]++')
  [ -n "$sources" ] || return 0
  if [ ! -f "$build/compile_commands.json" ]; then
    say "lint: clang-tidy is left out, as $build has no compile_commands.json; ./khost setup makes it"
    return 0
  fi
  need "clang-tidy-$CLANG" "clang-tidy-$CLANG" || return 0
  tidy_files "$sources"
  found clang-tidy "$tidy_output"
}

lint_main() {
  local begin=$SECONDS
  lint_found='' lint_missing='' tidy_list=''
  parse_lint "$@"
  cd "$root" || exit 1
  mkdir -p "$cache"
  log=$cache/lint.log
  : >"$log"
  choose_files
  ! is_wanted clang-format || check_format
  ! is_wanted luacheck || check_lua
  ! is_wanted ruff || check_python
  ! is_wanted shellcheck || check_shell
  ! is_wanted clang-tidy || check_tidy
  if [ -n "$lint_found" ]; then
    say "lint: findings of$(tr ' ' '\n' <<<"$lint_found" | awk 'NF && !seen[$0]++ {printf " %s", $0}'), $((SECONDS - begin)) s"
    exit 1
  fi
  if [ -n "$lint_missing" ]; then
    say "lint: nothing found, but not all was looked for; missing:$lint_missing"
    exit 3
  fi
  say "lint: nothing found in ${#lint_chosen[@]} files, $((SECONDS - begin)) s"
}

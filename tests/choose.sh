# The arguments of `./khost test`, read before anything is built. Sourced by the launcher, which has `root` and `say`.
# shellcheck shell=bash disable=SC2154,SC2034

test_files() { (cd "$root" && ls tests/*/*_test.cpp tests/*/*_test.lua); }
test_folders() { test_files | xargs -n 1 dirname | sort -u; }

# A label is a folder's name or a word of a file's name.
test_labels() {
  { test_folders | xargs -n 1 basename; test_files | sed 's,.*/,,; s,_test\..*,,' | tr _ '\n'; } | sort -u
}

test_help() {
  cat <<EOF
usage: ./khost test [FOLDER|FILE|LABEL]... [-R NAME] [--slow] [--gpu]

Builds and runs all tests, or those of a folder or file that have one of the labels:

  ./khost test tests/lua                 all of a folder
  ./khost test tests/lua/chat_test.lua   all of a file
  ./khost test judge                     all with a label, wherever they stand
  ./khost test tests/lua judge chat      of a folder those with one of the labels
  ./khost test -R "best is fastest"      what has this in its name, also what takes minutes
  --slow                                 also those that take minutes
  --gpu                                  a missing GPU is a failure, not a reason to skip

Folders: $(test_folders | paste -sd ' ')
Labels:
$(test_labels | paste -sd ' ' | fold -s -w 100 | sed 's/^/  /')
EOF
}

# Sets filter, from the arguments of `test`.
read_test_options() {
  filter=()
  while [ $# -gt 0 ]; do
    case $1 in
      -R) [ $# -gt 1 ] || { say "test: -R needs a NAME"; exit 2; }
        # A test that is named is run, also one of those that take minutes.
        filter+=("--test-case=*$2*" --no-skip)
        shift ;;
      --slow) filter+=(--no-skip) ;;
      --gpu) export KHOST_TEST_GPU=1 ;;
      -h | --help) test_help; exit 0 ;;
      -*) say "test: unknown argument '$1'; ./khost test --help says what there is"; exit 2 ;;
      */*) { test_files; test_folders; } | grep -Fx -- "${1%/}" >/dev/null ||
        { say "test: no tests in '$1'; there are tests in $(test_folders | paste -sd ' ')"; exit 2; }
        filter+=("$1") ;;
      *) test_labels | grep -Fx -- "$1" >/dev/null ||
        { say "test: no test has the label '$1'; ./khost test --help lists them, and -R '$1' looks in names"; exit 2; }
        filter+=("$1") ;;
    esac
    shift
  done
}

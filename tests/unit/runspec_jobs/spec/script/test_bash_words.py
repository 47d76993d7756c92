"""What only bash knows is found in a script for /bin/sh, and not in quoted text, comments or here-documents."""

from __future__ import annotations

import pytest

from runspec_jobs.load.notes.bash_words import find_bash_words

BASH = {
    "if [[ a == b ]]; then :; fi": ["[["],
    "x=(1 2)": ["an array"],
    "x+=(3)": ["an array"],
    'echo "${x[1]}"': ["${a[i]}"],
    "source env.sh": ["source"],
    "a && source ~/x": ["source"],
    "function f { :; }": ["function"],
    "diff <(sort a) <(sort b)": ["<("],
    "echo {1..9}": ["{1..9}"],
    "grep a <<< text": ["<<<"],
    'grep a <<< "$x"': ["<<<"],
    "set -euo pipefail": ["set -o pipefail"],
    "set -e -o pipefail": ["set -o pipefail"],
    "echo $RANDOM": ["$RANDOM"],
    'echo "a $RANDOM"': ["$RANDOM"],
    "for ((i=0; i<3; i++)); do :; done": ["(("],
    "((i++))": ["(("],
    "make &> log": ["&>"],
    "declare -A m": ["declare"],
    "shopt -s nullglob": ["shopt"],
    'if [ "$a" == b ]; then :; fi': ["== in [ ]"],
    'echo "${a//b/c}" ${a:0:1} ${a^^}': ["${a//b/c}", "${a:0:1}", "${a^^}"],
}
POSIX = (
    "echo '[[ x ]]' \"source a\" # source x <(y)",
    "cat <<'EOF'\nsource x\n[[ a ]]\nx=(1)\nEOF\necho",
    "python - <<EOF\nx = [[1]]\nfunction f\nEOF",
    "cat <<-EOF\n\tsource x\n\tEOF\necho",
    "cat <<A <<B\n[[ a ]]\nA\nsource x\nB\necho",
    "bash -c 'a=(1 2); echo {1..9}'",
    'bash -c "[[ a == b ]]"',
    "echo \\$RANDOM $((1 + 2)) $( (echo) ) ((",
    "((echo a) | cat)",
    "RANDOM=3; echo $RANDOM",
    "[ a = b ] && . ./env.sh; f() { :; }",
    "python train.py --data source=x --range 1..9 source",
    "git log --source; my-source x; echo source of; yum-config --function x",
    "awk '{a[1]=2; if (b == c) print a[1]}' f",
    'echo "it\'s" {} ${x:-y} ${x%.*} ${x#a} ${#x} ${x:=b} ${x:+c}',
    "grep -c '[[:space:]]' f; ls [[:digit:]]* *.[ch]",
    "test a == b",
    "set -eu; set -o errexit",
    "a 2>&1 >/dev/null & wait; a >&2",
    "case $x in a|b) y;; esac",
    "x='unclosed",
)


@pytest.mark.parametrize("script", BASH)
def test_words_that_only_bash_knows_are_named(script: str) -> None:
    assert [name for _, name in find_bash_words(f"echo\n{script}\n")] == BASH[script]


@pytest.mark.parametrize("script", BASH)
def test_a_bash_word_is_named_with_its_line(script: str) -> None:
    text = f"echo 'a\nb'\ncat <<E\nx\nE\n{script}\n"

    assert {line for line, _ in find_bash_words(text)} == {6}


@pytest.mark.parametrize("script", POSIX)
def test_text_that_a_posix_shell_reads_the_same_is_not_named(script: str) -> None:
    assert find_bash_words(script) == []

"""Write how often each word is in a file, the most frequent first."""

import sys
from collections import Counter
from pathlib import Path

words = Path(sys.argv[1]).read_text().split()
lines = [f"{count} {word}\n" for word, count in Counter(words).most_common()]
Path(sys.argv[2]).write_text("".join(lines))
print(f"{len(words)} words")

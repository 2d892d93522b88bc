# Runs a server over stdio; writes its input to FILE and creates FILE.ended at its exit:
# `sh watched.sh FILE SERVER`.
tee "$1" | "$2" --stdio
: > "$1.ended"

# A server on stdio that tells what it was told and when it ended: `sh watched.sh FILE SERVER`.
tee "$1" | "$2" --stdio
: > "$1.ended"

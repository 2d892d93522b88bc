# Commits what the task changed to `branch`, on which its worktree is, with `message`. Files of the caller and large
# files are left out, and no hook runs.
fail() { echo "$1" >&2 && exit 77; }
[ "$(git symbolic-ref -q HEAD)" = "refs/heads/$branch" ] || fail "the worktree is not on its branch $branch"
[ -z "$(git ls-files -u | head -c 1)" ] || fail 'a merge in it is not finished'
[ -n "$base" ] && [ -f "$store/lists/$base" ] || fail 'the state before the task is not known'
range
IFS=' ' read -r mark old new repository < "$work/pairs"
(enter . && git diff-tree -r -z --no-renames --name-only "$old" "$new") > "$work/set" || exit 76
cut -d ' ' -f 2- "$work/changed-large" > "$work/names"
[ ! -s "$work/names" ] || { LC_ALL=C grep -zvFx -f "$work/names" "$work/set" > "$work/kept" || : && mv "$work/kept" "$work/set"; }
git update-index -z --add --remove --stdin < "$work/set" || exit 76
git diff --cached --quiet || git -c commit.gpgSign=false commit -q --no-verify -m "$message" || exit 76

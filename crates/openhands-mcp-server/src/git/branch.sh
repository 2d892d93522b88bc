# Commits what the task changed to `branch`, on which its worktree is, with `message`. Files of the caller and large
# files are left out, also those that the agent has added to the index, and no hook runs.
fail() { echo "$1" >&2 && exit 77; }
[ "$(git symbolic-ref -q HEAD)" = "refs/heads/$branch" ] || fail "the worktree is not on its branch $branch"
[ -z "$(git ls-files -u | head -c 1)" ] && ! git rev-parse -q --verify MERGE_HEAD > /dev/null ||
    fail 'a merge in it is not finished'
[ -n "$base" ] && [ -f "$store/lists/$base" ] || fail 'the state before the task is not known'
range
IFS=' ' read -r mark old new repository < "$work/pairs"
(enter . && git diff-tree -r -z --no-renames --name-only "$old" "$new") > "$work/set" || exit 76
cut -d ' ' -f 2- "$work/changed-large" > "$work/names"
[ ! -s "$work/names" ] || { LC_ALL=C grep -zvFx -f "$work/names" "$work/set" > "$work/kept" || : && mv "$work/kept" "$work/set"; }
git update-index -z --add --remove --replace --stdin < "$work/set" || exit 76
head=$(git rev-parse HEAD) || exit 76
tree=$(
    export GIT_INDEX_FILE="$work/committed"
    git read-tree "$head" && git update-index -z --add --remove --replace --stdin < "$work/set" && git write-tree
) || exit 76
[ "$tree" != "$(git rev-parse "$head^{tree}")" ] || exit 0
commit=$(printf '%s\n' "$message" | git -c i18n.commitEncoding=utf-8 commit-tree "$tree" -p "$head") || exit 76
git update-ref -m "commit: $message" "refs/heads/$branch" "$commit" "$head" || exit 76

# Prints what is only in the worktree `dir` and its branch `branch`: lines of "commit" and its title, of "file" and "ignored"
# as git status prints them, and "sum" lines that change with the content (an ignored directory: with its name and time). A
# branch whose worktree is gone is in `repository`; if that is not known, "left" and its name are printed; if it is checked
# out elsewhere than in a worktree of the task `id`, "kept" and its name.
run() { GIT_OPTIONAL_LOCKS=0 git -c core.fsmonitor= -c core.hooksPath=/dev/null -c core.quotePath=false "$@"; }
elsewhere() {
    run for-each-ref --format='%(worktreepath)' "refs/heads/$branch" | grep -vE "/$id(-[^/]*)?\$" | grep -q .
}
# The repository that is around a directory which is no worktree any more is not the one.
if ! { cd -P -- "$dir" 2>/dev/null && [ -e .git ]; }; then
    [ -n "$repository" ] || echo "left $branch"
    cd -P -- "${repository:-/dev/null}" 2>/dev/null && run rev-parse -q --verify "refs/heads/$branch" >/dev/null || exit 0
    # A branch that is checked out elsewhere stays.
    if elsewhere; then
        echo "kept $branch"
        exit 0
    fi
    run log --format='commit %h %s' "refs/heads/$branch" --not --exclude="$branch" --branches --remotes --tags || exit 1
    printf 'sum %s\n' "$(run rev-parse "refs/heads/$branch")"
    exit 0
fi
run rev-parse -q --verify "refs/heads/$branch" >/dev/null || branch=
# A branch that is checked out elsewhere stays.
if [ -n "$branch" ] && [ "$(run symbolic-ref -q HEAD)" != "refs/heads/$branch" ] && elsewhere; then
    echo "kept $branch"
    branch=
fi
commits=$(run log --format='commit %h %s' HEAD ${branch:+"refs/heads/$branch"} \
    --not --exclude="${branch:-none}" --branches --remotes --tags) || exit 1
status=$(run status --porcelain --ignored | sed -e t -e 's/^!! /ignored /;t' -e 's/^/file /') || exit 1
printf '%s\n' "$commits" "$status" | sed '/^$/d'
printf 'sum %s\n' $(
    {
        run rev-parse HEAD ${branch:+"refs/heads/$branch"}
        run status --porcelain -z -uall
        run diff --no-ext-diff --no-textconv --binary HEAD
        run ls-files -z -o --exclude-standard | xargs -0 -r stat -c '%n %s %Y' --
        run ls-files -z -o -i --exclude-standard --directory | xargs -0 -r stat -c '%n %s %Y' --
    } | git hash-object --stdin
)
exit 0

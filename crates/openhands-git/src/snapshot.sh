# Records the content of the current directory and of the git repositories in it. Every repository is
# recorded on its own, with a copy of its index, so that what is staged stays as it is.
# `own_files` has patterns of files that are not the agent's; `add_timeout` is in seconds.
work=$(mktemp -d) || exit 76
trap 'rm -rf -- "$work"' EXIT
export GIT_OPTIONAL_LOCKS=0
newline='
'

# Prints the repositories below the directory, one a line.
repositories() {
    find . -name node_modules -prune -o -name .git -prune ! -path ./.git ! -path "*$newline*" -print |
        sed 's|^\./||; s|/\.git$||' | LC_ALL=C sort | while IFS= read -r repository; do
        # Another .git, such as an empty directory, makes no repository.
        [ -n "$(git -C "./$repository" rev-parse --show-prefix 2>&1)" ] || printf '%s\n' "$repository"
    done
}

# Removes the marks in the index for which git does not look at files of repository $1.
unmark() (
    cd "./$1" || exit 1
    marked() { git ls-files -v -z | sed -z -n "s/^[$1] //p"; }
    present='for file; do [ ! -e "$file" ] && [ ! -L "$file" ] || printf "%s\0" "$file"; done'
    marked a-z | git update-index -z --no-assume-unchanged --stdin &&
        marked S | xargs -0 sh -c "$present" sh | git update-index -z --no-skip-worktree --stdin
)

# Writes the content of repository $1, without the repositories in it, and prints the id of the tree.
record() (
    repository=$1
    prefix=$1/
    [ "$1" != . ] || prefix=
    set --
    while IFS= read -r inner; do
        case $inner in
            "$prefix"?*) set -- "$@" ":(exclude,literal)${inner#"$prefix"}" ;;
        esac
    done < "$work/repositories"
    for pattern in $own_files; do set -- "$@" ":(exclude,glob)$pattern"; done
    git_dir=$(git -C "./$repository" rev-parse --absolute-git-dir) || exit 1
    export GIT_INDEX_FILE="$work/index"
    rm -f -- "$GIT_INDEX_FILE"
    # With its time: git compares the content of files that are not older than the index.
    [ ! -e "$git_dir/index" ] || cp -p -- "$git_dir/index" "$GIT_INDEX_FILE" || exit 1
    unmark "$repository" || exit 1
    add() {
        timeout "$add_timeout" git -C "./$repository" -c core.safecrlf=false add -A -- . "$@" && return
        code=$?
        [ "$code" != 124 ] || echo "git add took longer than $add_timeout s" >&2
        return "$code"
    }
    # A file may vanish while it is read.
    add "$@" 2>/dev/null || add "$@" || exit 1
    git -C "./$repository" write-tree
)

# Writes the content of all repositories and prints the id of their list: a line with the time, then
# lines of `tree repository`.
snapshot() {
    set -f
    repositories > "$work/repositories" 2>/dev/null
    {
        date +%s%N
        { echo . && cat "$work/repositories"; } | while IFS= read -r repository; do
            tree=$(record "$repository" < /dev/null) || exit 1
            printf '%s %s\n' "$tree" "$repository"
        done
    } > "$work/end" || exit 76
    git hash-object -w --stdin < "$work/end" || exit 76
}

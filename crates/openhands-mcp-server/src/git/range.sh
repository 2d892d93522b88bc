# Finds what a task changed. `base` is the id of its initial snapshot. `others` has those of other tasks in
# the directory, oldest first: the first one after the task `ended` (local time) is its end, and one before
# that is of a task that worked at the same time. `earlier` has the times at which tasks ended that had begun before.

# Prints the list of snapshot $1. An older one is a tree or commit.
list() {
    cat -- "$store/lists/$1" 2>/dev/null || printf '0\n%s .\n' "$1"
}

# Prints the trees of the list in file $1.
trees() { sed '1d; /^[!=~^]/d' "$1"; }

# Prints the tree of repository $2 among those in file $1.
tree_in() {
    while IFS= read -r line; do [ "${line#* }" != "$2" ] || { echo "${line%% *}" && return; }; done < "$1"
    return 1
}

# Returns true if repository $1 has the tree or commit $2.
has_tree() (enter "$1" && git cat-file -e "$2^{tree}" 2>/dev/null)

# Prints the tree with which a task began whose initial state was not recorded.
head_tree() (
    enter .
    top=$(git rev-parse --show-prefix) || exit 1
    git rev-parse -q --verify "HEAD:${top%/}" 2>/dev/null || git hash-object -t tree -w /dev/null
)

# Prints the first commit of repository $1, which appeared later: what was cloned, or an empty tree.
first() (
    enter "$1"
    line=$(head -n 1 -- "$(git rev-parse --git-path logs/HEAD)" 2>/dev/null)
    case $line in
        '' | *'	commit (initial)'*) git hash-object -t tree -w /dev/null ;;
        *) line=${line#* } && echo "${line%% *}" ;;
    esac
)

# Writes lines of `mark old new repository` into `$work/pairs`, where `mark` is + for a repository that
# appeared later, and lines of `size path` of changed large files into `$work/changed-large`. Sets `notes`,
# and `content` to the id of the content at the end.
range() {
    notes= end=
    [ -n "$base" ] || [ -z "$is_kept" ] || notes=unrecorded
    time_of() { list "$1" | head -n 1 | grep -x '[0-9]*' || echo 0; }
    local_time() { date -d "$1" +%s%N 2>/dev/null; }
    if [ -n "$others$earlier" ]; then
        began=$(time_of "$base")
        ended=$(local_time "$ended")
        for time in $earlier; do
            time=$(local_time "$time")
            [ "${time:-0}" -le "$began" ] || notes="$notes shared"
        done
        for id in $others; do
            recorded=$(time_of "$id")
            [ "$recorded" -ge "$began" ] || continue
            if [ -n "$ended" ] && [ "$recorded" -gt "$ended" ]; then
                end=${end:-$id}
                break
            fi
            notes="$notes shared"
        done
    fi
    if [ -n "$end" ]; then list "$end" > "$work/end"; else snapshot; fi
    if [ -n "$base" ]; then list "$base"; else printf '0\n%s .\n' "$(head_tree)"; fi > "$work/base"
    content=$(content_id "$work/end")
    trees "$work/base" > "$work/base-trees"
    trees "$work/end" > "$work/end-trees"
    while IFS= read -r line; do
        new=${line%% *} repository=${line#* } mark=@
        if ! old=$(tree_in "$work/base-trees" "$repository"); then
            mark=+
            old=$(first "$repository") || exit 76
        elif ! has_tree "$repository" "$old"; then
            (enter "$repository" && [ -n "$is_found" ] && [ -z "$(git rev-parse --show-prefix)" ]) ||
                { echo 'the initial state is gone' >&2 && exit 76; }
            notes="$notes lost"
            old=$(first "$repository") || exit 76
        fi
        printf '%s %s %s %s\n' "$mark" "$old" "$new" "$repository"
    done < "$work/end-trees" > "$work/pairs"
    for side in base end; do
        sed -n 's/^!//p' "$work/$side" | LC_ALL=C sort > "$work/large-$side"
    done
    {
        LC_ALL=C comm -13 "$work/large-base" "$work/large-end"
        LC_ALL=C comm -23 "$work/large-base" "$work/large-end"
    } | while IFS= read -r line; do printf '%s %s\n' "${line%% *}" "${line#* * }"; done > "$work/changed-large"
}

# Compares trees with the arguments of `git diff`, as those of repository $1. Its configuration is not used.
compare() (
    enter "$1"
    shift
    GIT_DIR=$(neutral "$format") GIT_WORK_TREE=$(pwd)
    export GIT_DIR GIT_WORK_TREE
    git diff --no-color --no-ext-diff --no-textconv --submodule=short -M -l0 -O/dev/null "$@"
)

encoded() { base64 | tr -d '\n' && echo; }

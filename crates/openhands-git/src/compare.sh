# Compares the content now, or at `end`, with `base`. `file` limits the list and the diff to a file or
# directory; `patch_of` asks for a patch of that repository instead of a diff of all. `others` has the
# initial snapshots of other tasks in the directory, oldest first: the first one after the task `ended`
# (local time) is its end, and one before that is of a task that worked at the same time.
: > "$work/list"
: > "$work/diff"
notes=
time_of() { git cat-file blob "$1" 2>/dev/null | head -n 1 | grep -x '[0-9]*' || echo 0; }
if [ -n "$others" ]; then
    began=$(time_of "$base")
    ended=$(date -d "$ended" +%s%N 2>/dev/null)
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
[ -n "$end" ] || end=$(snapshot) || exit 76

# Prints the list of trees of snapshot $1, which is one tree or commit if it is older than these lists.
trees() {
    case $(git cat-file -t "$1" 2>/dev/null) in
        blob) git cat-file blob "$1" | sed 1d ;;
        tree | commit) printf '%s .\n' "$1" ;;
        *) return 1 ;;
    esac
}

# Prints the first commit of a repository that appeared later: what was cloned, or an empty tree.
first() (
    cd "./$1" || exit 1
    line=$(head -n 1 -- "$(git rev-parse --git-path logs/HEAD)" 2>/dev/null)
    case $line in
        '' | *'	commit (initial)'*) git hash-object -t tree /dev/null ;;
        *) line=${line#* } && echo "${line%% *}" ;;
    esac
)

trees "$end" > "$work/end" || { echo 'the snapshot is gone' >&2 && exit 76; }
if [ -z "$base" ]; then
    base=$(git rev-parse -q --verify HEAD || git hash-object -t tree /dev/null)
    echo "$base ." > "$work/base"
elif ! trees "$base" > "$work/base"; then
    [ -z "$(git rev-parse --show-cdup)" ] || { echo 'the initial state is gone' >&2 && exit 76; }
    notes="$notes lost"
    echo "$(first .) ." > "$work/base"
fi

# Prints the tree of repository $2 in the list $1.
tree_in() {
    while IFS= read -r line; do [ "${line#* }" != "$2" ] || { echo "${line%% *}" && return; }; done < "$1"
    return 1
}

# Sets `path` to what `file` is in repository $1; false if it has nothing of it.
select_path() {
    path=.
    [ -n "$file" ] || return 0
    path=$file
    [ "$1" != . ] || return 0
    case $1/ in "$file"/*) path=. && return 0 ;; esac
    case $file in "$1"/*) path=${file#"$1"/} && return 0 ;; esac
    return 1
}

compare() {
    repository=$1
    shift
    GIT_LITERAL_PATHSPECS=1 git -C "./$repository" diff --relative --no-color --no-ext-diff \
        --no-textconv -M -l0 -O/dev/null "$@" -- "$path"
}

[ -z "$patch_of" ] || tree_in "$work/end" "$patch_of" > /dev/null || notes="$notes absent"

count=0
while IFS= read -r line; do
    tree=${line%% *} repository=${line#* }
    select_path "$repository" || continue
    mark=@
    old=$(tree_in "$work/base" "$repository") || { mark=+ && old=$(first "$repository"); } || exit 76
    prefix=$repository/
    [ "$repository" != . ] || prefix=
    compare "$repository" --name-status "$old" "$tree" > "$work/names" || exit 76
    changed=$(wc -l < "$work/names")
    if [ "$mark" = + ] || [ "$changed" -ne 0 ]; then
        count=$((count + changed))
        [ "$mark" = @ ] || count=$((count + 1))
        printf '%s%s\0' "$mark" "$repository" >> "$work/list"
        compare "$repository" --name-status -z "$old" "$tree" >> "$work/list" || exit 76
    fi
    if [ "$patch_of" = "$repository" ]; then
        compare "$repository" -U3 --inter-hunk-context=0 --binary --full-index --src-prefix=a/ \
            --dst-prefix=b/ "$old" "$tree" >> "$work/diff" || exit 76
    elif [ -z "$patch_of" ] && [ "$length" -gt 0 ]; then
        compare "$repository" --src-prefix="a/$prefix" --dst-prefix="b/$prefix" \
            "$old" "$tree" >> "$work/diff" || exit 76
    fi
done < "$work/end"
while IFS= read -r line; do
    repository=${line#* }
    select_path "$repository" || continue
    tree_in "$work/end" "$repository" > /dev/null || {
        count=$((count + 1))
        printf '@.\0D\0%s/\0' "$repository" >> "$work/list"
    }
done < "$work/base"

encoded() { base64 | tr -d '\n' && echo; }
printf '%s\n%s\n%s\n' "$end" "$notes" "$count"
head -c 262144 -- "$work/list" | encoded
wc -c < "$work/diff"
tail -c "+$((offset + 1))" -- "$work/diff" | head -c "$length" | encoded

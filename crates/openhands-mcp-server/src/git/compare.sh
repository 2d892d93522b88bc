# Prints the changes. `file` limits the list and the diff to a file or directory; `patch_of` asks for a patch
# of that repository instead of a diff of all. `expected` is the id of the content, if it must be that.
: > "$work/list"
: > "$work/diff"
range
[ -z "$expected" ] || [ "$expected" = "$content" ] || exit 79

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

[ -z "$patch_of" ] || tree_in "$work/end-trees" "$patch_of" > /dev/null || notes="$notes absent"

count=0
while IFS= read -r line; do
    mark=${line%% *} line=${line#* }
    old=${line%% *} line=${line#* }
    new=${line%% *} repository=${line#* }
    select_path "$repository" || continue
    prefix=$repository/
    [ "$repository" != . ] || prefix=
    set -- ":(literal)$path"
    compare "$repository" --name-status "$old" "$new" -- "$@" > "$work/names" || exit 76
    changed=$(wc -l < "$work/names")
    if [ "$mark" = + ] || [ "$changed" -ne 0 ]; then
        count=$((count + changed))
        [ "$mark" = @ ] || count=$((count + 1))
        printf '%s%s\0' "$mark" "$repository" >> "$work/list"
        compare "$repository" --name-status -z "$old" "$new" -- "$@" >> "$work/list" || exit 76
    fi
    while IFS= read -r line; do
        line=${line#* }
        case $line in "$prefix"*) set -- "$@" ":(exclude,literal)${line#"$prefix"}" ;; esac
    done < "$work/changed-large"
    if [ "$patch_of" = "$repository" ]; then
        compare "$repository" -U3 --inter-hunk-context=0 --binary --full-index --src-prefix=a/ \
            --dst-prefix=b/ "$old" "$new" -- "$@" >> "$work/diff" || exit 76
    elif [ -z "$patch_of" ] && [ "$length" -gt 0 ]; then
        compare "$repository" --src-prefix="a/$prefix" --dst-prefix="b/$prefix" \
            "$old" "$new" -- "$@" >> "$work/diff" || exit 76
    fi
done < "$work/pairs"
while IFS= read -r line; do
    repository=${line#* }
    select_path "$repository" || continue
    tree_in "$work/end-trees" "$repository" > /dev/null || {
        count=$((count + 1))
        printf '@.\0D\0%s/\0' "$repository" >> "$work/list"
    }
done < "$work/base-trees"

! LC_ALL=C grep -aq '^[-+ ]version https://git-lfs' "$work/diff" || notes="$notes lfs"
printf '%s\n%s\n%s\n' "$content" "$notes" "$count"
head -c 262144 -- "$work/list" | encoded
head -c 65536 -- "$work/changed-large" | encoded
wc -c < "$work/diff"
tail -c "+$((offset + 1))" -- "$work/diff" | head -c "$length" | encoded

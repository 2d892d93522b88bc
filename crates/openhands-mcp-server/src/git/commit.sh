# Makes a commit of what the task changed in the repository of the directory. `parent` is the commit on which
# it is put, if that is not the one with which the work began; `host` one that the git host has; `message`
# and `time` are those of the commit. Nothing but the commit is written, into `store`.
[ -n "$base" ] && [ -f "$store/lists/$base" ] || exit 80
objects=$store/objects
range
case " $notes " in *' lost '*) exit 80 ;; esac
IFS=' ' read -r mark old new repository < "$work/pairs"

# The changes in the repositories below it are left out.
: > "$work/left-out"
sed 1d "$work/pairs" | while IFS=' ' read -r mark was now repository; do
    compare "$repository" --name-status -z "$was" "$now" > "$work/names" || exit 76
    [ "$mark" = @ ] && [ ! -s "$work/names" ] || printf '%s%s\0' "$mark" "$repository" >> "$work/left-out"
    cat "$work/names" >> "$work/left-out"
done || exit 76

enter .
[ -n "$is_found" ] && [ -z "$(git rev-parse --show-prefix)" ] || exit 74
export GIT_INDEX_FILE="$work/merged"

# Ends with the exit code $1 and the names in file $2, unless there are none.
refuse_names() { [ ! -s "$2" ] || { head -c 4096 -- "$2" && exit "$1"; }; }
lines() { tr '\0' '\n' | LC_ALL=C sort -u; }

git diff-tree -r -z --no-renames --name-only "$old" "$new" | lines > "$work/set"
cut -d ' ' -f 2- "$work/changed-large" | LC_ALL=C grep -Fx -f "$work/set" > "$work/names"
refuse_names 81 "$work/names"
# Their content is not in git.
tr '\n' '\0' < "$work/set" | git check-attr -z --stdin filter | tr '\0' '\n' |
    awk 'NR % 3 == 1 { name = $0 } NR % 3 == 0 && $0 == "lfs" { print name }' > "$work/names"
refuse_names 84 "$work/names"
sed -n 's/^~//p' "$work/base" > "$work/ignored"
git diff-tree -r -z --no-renames --diff-filter=A --name-only "$old" "$new" | lines |
    LC_ALL=C awk -v ignored="$work/ignored" '
        BEGIN { while ((getline name < ignored) > 0) is_ignored[name] }
        {
            if ($0 in is_ignored) { print; next }
            count = split($0, parts, "/")
            path = ""
            for (i = 1; i < count; i++) {
                path = path parts[i] "/"
                if (path in is_ignored) { print; next }
            }
        }' > "$work/names"
refuse_names 82 "$work/names"

# The commit at the git host with which the work began, and the one on which it is now.
known=$(for id in $host $(git for-each-ref --format='%(objectname)' refs/remotes); do
    [ "$id" = "$parent" ] || ! git cat-file -e "$id^{commit}" 2>/dev/null || echo "$id"
done)
[ -n "$known" ] || exit 77
from=$(git merge-base HEAD $known)
case $? in 0) ;; 1) exit 77 ;; *) exit 76 ;; esac
began=$(sed -n 's/^^//p' "$work/base")
began=$(git merge-base "${began:-$from}" $known) || began=$from
onto=${parent:-$from}

# What the task changed is put on that commit. A file that had other content when the task began than at the
# git host has changes of somebody else.
entry() { git --literal-pathspecs ls-tree --full-tree "$1" -- "$2"; }
git read-tree -i -m --aggressive "$old" "$from^{tree}" "$new" || exit 76
git ls-files -u -z | sed -z 's/^[^\t]*\t//' | lines > "$work/unmerged"
while IFS= read -r path; do
    if [ "$(entry "$began" "$path")" = "$(entry "$old" "$path")" ]; then
        git update-index --force-remove -- "$path" || exit 76
        entry "$new" "$path" | git update-index --index-info || exit 76
    else
        printf '%s\n' "$path"
    fi
done < "$work/unmerged" > "$work/names"
refuse_names 83 "$work/names"
tree=$(git write-tree) && was=$(git rev-parse --verify "$onto^{tree}") || exit 76
[ "$tree" != "$was" ] || exit 78
GIT_AUTHOR_DATE="@$time +0000" GIT_COMMITTER_DATE="@$time +0000"
export GIT_AUTHOR_DATE GIT_COMMITTER_DATE
commit=$(printf '%s\n' "$message" | git -c i18n.commitEncoding=utf-8 commit-tree "$tree" -p "$onto") || exit 76
echo "$commit $onto $from"
echo "$notes"
git diff-tree -r -M -l0 --shortstat "$onto" "$commit" | encoded
git diff-tree -r -z -M -l0 --name-status --no-commit-id "$onto" "$commit" | head -c 262144 | encoded
head -c 65536 -- "$work/left-out" | encoded
# Whatever attributes say, a secret in it is to be found.
git diff-tree -r -p --text --no-ext-diff --no-textconv "$onto" "$commit" | head -c "$length" | encoded

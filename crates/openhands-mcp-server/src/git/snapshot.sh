# Records the content of the current directory and of the git repositories in it. Every repository is
# recorded on its own, with a copy of its index. Nothing is written into the directory or its repositories.
# `work` is a temporary directory and `store` one that keeps initial snapshots, if there is one.
# `own_files` has patterns of files that are not the agent's; files of more than `large` bytes are
# recorded by their size and hash. An initial snapshot reads at most `hashed` bytes of them, the smallest first, and
# records the others by their size and time.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
# What is shown is what a commit holds, not what stands for it in this repository.
export GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1
newline='
'
here=$(pwd)
is_initial= is_kept=$store
store=${store:-$work/store}
objects=$work/objects
mkdir -p "$objects" || exit 76

# No hook or monitor of a repository runs.
git() {
    command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.splitIndex=false \
        -c core.safecrlf=false -c core.sparseCheckout=false -c core.ignoreCase=false -c core.fileMode=true "$@"
}

# Prints the repositories below the directory, one a line.
repositories() {
    find . -name node_modules -prune -o -name .git -prune ! -path ./.git ! -path "*$newline*" -print |
        sed 's|^\./||; s|/\.git$||' | LC_ALL=C sort | while IFS= read -r repository; do
        # Another .git, such as an empty directory, makes no repository.
        [ -n "$(git -C "./$repository" rev-parse --show-prefix 2>&1)" ] || printf '%s\n' "$repository"
    done
}

# Prints the large files below the directory, the smallest first: lines of `size time change path`.
large_files() {
    find . -name .git -prune -o -type f -size "+${large}c" ! -path "*$newline*" -printf '%s %T@ %C@ %P\n' |
        LC_ALL=C sort -n
}

# Prints what stands for the content of the large file $3, which has the path $2 in the directory and the facts $1 in
# the list of large files: its size and hash, or its size and time. A file is read again only if its facts are others
# than in the initial snapshot `base`, and if that has a hash of a file of this size.
large_content() {
    size=${1%% *} time=${1#* }
    time=${time%% *} is_hashed=
    if [ -n "$is_initial" ]; then
        read=$(($(cat "$work/read" 2>/dev/null || echo 0) + size))
        [ "$read" -gt "$hashed" ] || is_hashed=1
        echo "$read" > "$work/read"
    elif [ -n "$base" ] && [ -f "$store/lists/$base" ]; then
        known=$(facts=$1 path=$2 LC_ALL=C awk '
            $0 == "=" ENVIRON["facts"] " " ENVIRON["path"] { is_same = 1 }
            /^![^ ]* [^ ]* / {
                match($0, /^![^ ]* [^ ]* /)
                if (substr($0, RLENGTH + 1) == ENVIRON["path"]) content = substr($0, 2, RLENGTH - 2)
            }
            END { print (is_same ? "same" : "other"), content }' "$store/lists/$base")
        case $known in
            'same '?*) printf '%s\n' "${known#* }" && return ;;
            "other $size @"*) ;;
            "other $size "*) is_hashed=1 ;;
        esac
    fi
    if [ -n "$is_hashed" ]; then
        hash=$(sha256sum < "$3") && printf '%s %s\n' "$size" "${hash%% *}"
    else
        printf '%s @%s\n' "$size" "$time"
    fi
}

quoted() { printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"; }

# Makes a repository without content that knows objects by ids of the format $1, and prints its directory.
neutral() {
    [ -d "$work/git-$1" ] || git init -q --bare --template= --object-format="$1" "$work/git-$1" || exit 1
    printf '%s\n' "$work/git-$1"
}

# Enters repository $1, in a subshell. New objects are written into `objects`. The directory itself need not
# be a repository; `is_found` is empty then, and `git_dir` has no index. Sets `format`, too.
enter() {
    cd "./$1" || exit 1
    is_found=1
    if [ "$1" != . ] || { [ "$(git rev-parse --is-inside-work-tree 2>/dev/null)" = true ] &&
        ! git check-ignore -q .; }; then
        known=$(git rev-parse --absolute-git-dir --git-path objects --show-object-format) || exit 1
        format=${known##*"$newline"} known=${known%"$newline"*}
        git_dir=${known%%"$newline"*} own=${known#*"$newline"}
        case $own in /*) ;; *) own=$(pwd)/$own ;; esac
    else
        is_found= format=sha1
        git_dir=$(neutral sha1) || exit 1
        own=$git_dir/objects
        export GIT_DIR="$git_dir" GIT_WORK_TREE="$(pwd)"
    fi
    GIT_ALTERNATE_OBJECT_DIRECTORIES=$(quoted "$own")
    [ ! -d "$store/objects" ] || GIT_ALTERNATE_OBJECT_DIRECTORIES=$GIT_ALTERNATE_OBJECT_DIRECTORIES:$(quoted "$store/objects")
    export GIT_OBJECT_DIRECTORY="$objects" GIT_ALTERNATE_OBJECT_DIRECTORIES
}

# Removes the marks in the index for which git does not look at files.
unmark() {
    git ls-files -v -z > "$work/marks" || return
    sed -z -n 's/^[a-z] //p' "$work/marks" > "$work/unchanged"
    sed -z -n 's/^[Ss] //p' "$work/marks" | xargs -0 sh -c \
        'for file; do [ ! -e "$file" ] && [ ! -L "$file" ] || printf "%s\0" "$file"; done' sh > "$work/skipped"
    [ ! -s "$work/unchanged" ] ||
        git update-index -z --no-assume-unchanged --stdin < "$work/unchanged" || return
    [ ! -s "$work/skipped" ] || git update-index -z --no-skip-worktree --stdin < "$work/skipped"
}

# Puts the large files of the current repository, whose files have the prefix $1 in the directory, into the index as
# texts that stand for their content, and adds them to the list `large`. The other arguments are pathspecs.
record_large() {
    prefix=$1
    shift
    while IFS= read -r line; do
        path=${line#* * * }
        case $path in "$prefix"*) printf '%s %s\n' "${line%" $path"}" "${path#"$prefix"}" ;; esac
    done < "$work/large-files" > "$work/own-large"
    [ -s "$work/own-large" ] || return 0
    cut -d ' ' -f 4- "$work/own-large" > "$work/names"
    git ls-files -z -c -o --exclude-standard -- "$@" | tr '\0' '\n' |
        LC_ALL=C grep -Fx -f "$work/names" | LC_ALL=C sort -u > "$work/kept"
    top=$(git rev-parse --show-prefix) || return
    while IFS= read -r line; do
        path=${line#* * * } facts=${line%" ${line#* * * }"}
        LC_ALL=C grep -Fxq -e "$path" "$work/kept" || continue
        content=$(large_content "$facts" "$prefix$path" "$path") || return
        text=$(printf '%s\n' "$content" | git hash-object -w --stdin) || return
        printf '100644 %s 0\t%s\0' "$text" "$top$path" >> "$work/entries"
        printf ':(exclude,literal)%s\0' "$path" >> "$work/paths"
        printf '!%s %s\n' "$content" "$prefix$path" >> "$work/large"
        [ -z "$is_initial" ] || printf '=%s %s\n' "$facts" "$prefix$path" >> "$work/own-facts"
    done < "$work/own-large"
}

# Writes the content of repository $1, without the repositories in it, and prints the id of the tree.
record() (
    repository=$1
    prefix=$1/
    [ "$1" != . ] || prefix=
    set -- .
    while IFS= read -r inner; do
        case $inner in
            "$prefix"?*) set -- "$@" ":(exclude,literal)${inner#"$prefix"}" ;;
        esac
    done < "$work/repositories"
    for pattern in $own_files; do set -- "$@" ":(exclude,glob)$pattern"; done
    case $store/ in
        "$here/$prefix"*) own=${store#"$here/$prefix"} && set -- "$@" ":(exclude,literal)$own" ;;
    esac
    enter "$repository"
    export GIT_INDEX_FILE="$work/index"
    rm -f -- "$GIT_INDEX_FILE" "$work/entries"
    # With its time: git compares the content of files that are not older than the index.
    [ ! -e "$git_dir/index" ] || cp -p -- "$git_dir/index" "$GIT_INDEX_FILE" || exit 1
    unmark || exit 1
    printf '%s\0' "$@" > "$work/paths"
    record_large "$prefix" "$@" || exit 1
    add() { git add -A --pathspec-from-file="$work/paths" --pathspec-file-nul; }
    # A file may vanish while it is read.
    add 2>/dev/null || add || exit 1
    [ ! -s "$work/entries" ] || git update-index -z --index-info < "$work/entries" || exit 1
    if [ "$repository" = . ] && [ -n "$is_initial" ]; then
        # Files that are the user's own, and the commit with which the work begins.
        git ls-files -z -o -i --exclude-standard --directory -- "$@" | tr '\0' '\n' | sed 's/^/~/' > "$work/own"
        git rev-parse -q --verify HEAD 2>/dev/null | sed 's/^/^/' >> "$work/own"
    fi
    top=$(git rev-parse --show-prefix) || exit 1
    if [ -n "$top" ] && [ -z "$(git ls-files | head -c 1)" ]; then
        git hash-object -t tree -w /dev/null
    else
        git write-tree --prefix="$top"
    fi
)

# Writes the content of all repositories and their list into `$work/end`: a line with the time, lines of
# `tree repository` and `!size hash path` for large files. An initial one has lines of `=size time change path` for
# large files, `~path` for ignored files and `^commit`, too.
snapshot() {
    set -f
    repositories > "$work/repositories" 2>/dev/null
    large_files > "$work/large-files" 2>/dev/null
    : > "$work/large"
    : > "$work/own-facts"
    : > "$work/own"
    {
        date +%s%N
        { echo . && cat "$work/repositories"; } | while IFS= read -r repository; do
            tree=$(record "$repository" < /dev/null) || exit 1
            printf '%s %s\n' "$tree" "$repository"
        done || exit 76
        cat "$work/large" "$work/own-facts" "$work/own"
    } > "$work/end" || exit 76
}

# Prints an id of the content of the list in file $1.
content_id() { sed '1d; /^[=~^]/d' "$1" | git hash-object --stdin; }

# Takes a snapshot that stays in `store`, and prints its id.
initial_snapshot() {
    is_initial=1 objects=$store/objects
    mkdir -p "$objects" "$store/lists" || exit 76
    snapshot
    id=$(git hash-object --stdin < "$work/end") || exit 76
    cp -- "$work/end" "$store/lists/$id" && echo "$id" || exit 76
}

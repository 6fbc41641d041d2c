#!/usr/bin/env bash
# oracle.sh REPO COMMIT DIR: prints the tree id that stock git computes from what the kernel shows in DIR.
# It trusts nothing of forgefs. REPO and COMMIT only say which empty directories are submodules.
# git >= 2.41 adds DIR to an index with the attributes of an empty tree; a plain `git add` would convert line ends.
# An older git (or FORGEFS_ORACLE=mktree) hashes files without filters and builds the trees bottom-up.
set -euo pipefail
[ $# = 3 ] || { echo "usage: oracle.sh REPO COMMIT DIR" >&2; exit 2; }
repo=$(realpath -e -- "$1") commit=$2
cd -- "$3"
die() { echo "oracle: $*" >&2; exit 1; }
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent LC_ALL=C
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
source_git() { env -u GIT_DIR git -c safe.directory='*' --no-replace-objects -C "$repo" "$@"; }
format=$(source_git rev-parse --show-object-format)
git init -q --bare --template= --object-format="$format" "$tmp/git"
export GIT_DIR=$tmp/git

source_git ls-tree -r -z "$commit" >"$tmp/tree"
declare -A link=()
while IFS= read -r -d '' line; do
  [ "${line%% *}" = 160000 ] || continue
  id=${line#* * } name=${line#*$'\t'}; id=${id%%$'\t'*}
  link["$name"]=$id
  [ -d "$name" ] && [ -z "$(ls -A -- "$name")" ] || die "submodule is no empty directory: $name"
done <"$tmp/tree"
find . ! -type f ! -type d ! -type l -print -quit | grep -q . && die "a special file"
find . -iname .git -print -quit | grep -q . && die "a .git"

version=$(git version | sed 's/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/')
version=$((${version% *} * 100 + ${version#* }))
if [ "${FORGEFS_ORACLE:-}" != mktree ] && [ $version -ge 241 ]; then
  while IFS= read -r -d '' dir; do
    [ "$dir" = . ] || [ -n "${link["${dir#./}"]-}" ] || die "an empty directory: $dir"
  done < <(find . -type d -empty -print0)
  git --attr-source="$(git hash-object -t tree -w /dev/null)" -c core.autocrlf=false -c core.fileMode=true \
    -c core.symlinks=true -c core.bare=false --work-tree=. add -A -f -- .
  for name in "${!link[@]}"; do printf '160000 %s\t%s\0' "${link["$name"]}" "$name"; done |
    git update-index -z --index-info
  exec 3>&1; git write-tree >&3; exit
fi

declare -A id=()
exec 3< <(find . -type f -print0 | xargs -0r git hash-object --no-filters -w --)
while IFS= read -r -d '' file; do IFS= read -r -u 3 hash; id["$file"]=$hash; done < <(find . -type f -print0)
while IFS= read -r -d '' dir; do
  while IFS= read -r -d '' entry; do
    type=${entry:0:1} x=${entry:1:1} name=${entry:2} path=$dir/${entry:2}
    case $type in
      f) line="$([ $((x & 1)) = 1 ] && echo 100755 || echo 100644) blob ${id["$path"]}" ;;
      l) line="120000 blob $(readlink -n -- "$path" | git hash-object -w --stdin)" ;;
      d) if [ -n "${link["${path#./}"]-}" ]; then line="160000 commit ${link["${path#./}"]}"
         else line="40000 tree ${id["$path"]}"; fi ;;
    esac
    printf '%s\t%s\0' "$line" "$name"
  done < <(find "$dir" -mindepth 1 -maxdepth 1 -printf '%y%m %P\0' |
    sed -z 's/^\(.\)0*\([0-7]\)[0-7][0-7] /\1\2/') >"$tmp/lines"
  id["$dir"]=$(git mktree -z --missing <"$tmp/lines")
done < <(find . -depth -type d -print0)
echo "${id[.]}"

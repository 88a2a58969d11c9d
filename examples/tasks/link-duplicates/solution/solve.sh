#!/bin/bash
set -eu
cd /srv/archive
previous_sum='' first=''
find . -type f -size +0 -print0 | sort -z | xargs -0 sha256sum | sort -s -k1,1 | while read -r sum path; do
  if [ "$sum" = "$previous_sum" ]; then
    ln -f -- "$first" "$path"
  else
    previous_sum=$sum first=$path
  fi
done

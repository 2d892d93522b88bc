# A registry with one image, `app:1`, whose layer comes slowly.
mkdir -p /srv /data
head -c 2000000 /dev/urandom > /data/blob
tar -cf /srv/layer -C /data blob
layer=$(sha256sum /srv/layer | cut -d ' ' -f 1)
mv /srv/layer "/srv/$layer"
printf '{"architecture":"amd64","os":"linux","config":{"Cmd":["/blob"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created_by":"COPY blob"}]}' "$layer" > /srv/config
config=$(sha256sum /srv/config | cut -d ' ' -f 1)
mv /srv/config "/srv/$config"
size() { wc -c < "/srv/$1" | tr -d ' '; }
printf '{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%s,"digest":"sha256:%s"},"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","size":%s,"digest":"sha256:%s"}]}' \
    "$(size "$config")" "$config" "$(size "$layer")" "$layer" > /srv/manifest
cat > /serve <<'END'
#!/bin/sh
read -r method path rest
while read -r line && [ ${#line} -gt 1 ]; do :; done
digest=${path##*sha256:}
type=application/octet-stream
status='200 OK'
case "$path" in
    /v2/) file=/srv/empty ;;
    /v2/app/manifests/1 | /v2/app/manifests/sha256:*)
        file=/srv/manifest
        type=application/vnd.docker.distribution.manifest.v2+json ;;
    /v2/app/blobs/*) file=/srv/$digest ;;
    *) file=/srv/unknown; status='404 Not Found'; type=application/json ;;
esac
length=$(wc -c < "$file" | tr -d ' ')
printf 'HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %s\r\nDocker-Distribution-Api-Version: registry/2.0\r\nConnection: close\r\n\r\n' "$status" "$type" "$length"
[ "$method" = HEAD ] && exit
if [ "$length" -lt 100000 ]; then cat "$file"; exit; fi
part=0
while [ $part -lt 21 ]; do
    dd if="$file" bs=100k skip=$part count=1 2>/dev/null
    part=$((part + 1))
    sleep "$SLOWNESS"
done
END
chmod +x /serve
printf '{}' > /srv/empty
printf '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}' > /srv/unknown
nc -ll -p 5000 -e /serve &
# 0x1388 is the port, and 0A the state of a socket that listens.
until grep -qi ':1388 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
echo ready
wait

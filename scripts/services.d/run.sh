#!/usr/bin/env bash
# How each service is prepared, run and asked whether it is up; sourced by scripts/services.
#
# prepare_NAME makes DIR ready and sets ADDRESS, run_NAME starts it and sets PID, answers_NAME asks it once.

# beside COMMAND...: runs it in DIR and in the background, and sets PID. It gets a session of its own: an interrupt from
# the terminal reaches who started it, and who then stops it. And it gets a parent that does nothing but wait for it,
# so that nothing is left of it after a kill, even where process 1 collects no orphans.
beside() {
    read -r PID < <(
        cd "$DIR" || exit 1
        setsid "$@" </dev/null >>"$DIR/log" 2>&1 &
        echo $!
        exec </dev/null >&- 2>&-
        wait
    )
}

# http PATH: whether GET of PATH on PORT gives 200 and a body that matches $2.
http() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$PORT" || exit 1
        printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$1" >&3
        answer=$(timeout 5 cat <&3)
        [[ $answer == HTTP/1.?\ 200* && $answer == *$2* ]]
    ) 2>/dev/null
}

# --- Kafka

# java_kafka OPTION...: sets `java` to what comes before a class of Kafka's.
java_kafka() {
    java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Xmx384m -XX:-UsePerfData "$@"
        -Dlog4j2.configurationFile="$here/services.d/kafka/log4j2.properties"
        -cp "$cache/kafka-$(version_kafka)/libs/*")
}

prepare_kafka() {
    ADDRESS=127.0.0.1:$PORT
    [ ! -d "$DIR/data" ] || return 0
    local id java
    java_kafka
    # Sixteen random bytes in the alphabet that Kafka's tools use for ids.
    id=k$(head -c 15 /dev/urandom | base64 | tr '+/' '-_')A
    sed -e "s|@PORT@|$PORT|g; s|@PORT2@|$PORT2|g; s|@DIR@|$DIR|g" \
        "$here/services.d/kafka/server.properties" >"$DIR/server.properties" &&
        "${java[@]}" kafka.tools.StorageTool format --standalone -t "$id" -c "$DIR/server.properties" \
            </dev/null >>"$DIR/log" 2>&1
}

run_kafka() {
    local java
    java_kafka "-XX:SharedArchiveFile=$cache/$(kafka_classes)/classes.jsa"
    beside "${java[@]}" kafka.Kafka "$DIR/server.properties" "$@"
}

# Its port opens before it can make topics.
answers_kafka() {
    grep -q 'Kafka Server started' "$DIR/log" && (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null
}

# --- etcd

run_one_etcd() {
    local program=$1
    shift
    beside "$program" --name one --data-dir "$DIR/data" \
        --listen-client-urls "http://127.0.0.1:$PORT" --advertise-client-urls "http://127.0.0.1:$PORT" \
        --listen-peer-urls "http://127.0.0.1:$PORT2" --initial-advertise-peer-urls "http://127.0.0.1:$PORT2" \
        --initial-cluster "one=http://127.0.0.1:$PORT2" "$@"
}

prepare_etcd() { ADDRESS=http://127.0.0.1:$PORT; }
run_etcd() { run_one_etcd "$cache/etcd-$(version_etcd)/etcd" "$@"; }
answers_etcd() { http /health '"health":"true"'; }

prepare_etcd_oldest() { prepare_etcd; }
run_etcd_oldest() { run_one_etcd etcd --logger zap "$@"; }
answers_etcd_oldest() { answers_etcd; }

# --- PostgreSQL

# as_postgres: sets `as` to what comes before a command; PostgreSQL refuses to run as root.
as_postgres() {
    as=()
    [ "$(id -u)" -ne 0 ] || as=(setpriv --reuid=postgres --regid=postgres --init-groups --)
}

prepare_postgres() {
    [ -n "$SECRET" ] || SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
    ADDRESS=postgres://barrage:$SECRET@127.0.0.1:$PORT/postgres
    [ ! -d "$DIR/data" ] || return 0
    local as
    as_postgres
    echo "$SECRET" >"$DIR/secret" || return 1
    if [ ${#as[@]} -gt 0 ]; then
        chown postgres "$DIR" "$DIR/secret" || return 1
        if ! "${as[@]}" test -w "$DIR"; then
            echo "the user postgres cannot reach $DIR" >>"$DIR/log"
            return 1
        fi
    fi
    (cd "$DIR" && "${as[@]}" initdb -D data -U barrage -A scram-sha-256 --pwfile=secret -E UTF8 \
        --locale=C.UTF-8 --no-sync) </dev/null >>"$DIR/log" 2>&1
}

run_postgres() {
    local as
    as_postgres
    beside "${as[@]}" postgres -D data -p "$PORT" -c listen_addresses=127.0.0.1 \
        -c unix_socket_directories= -c max_connections=200 "$@"
}

answers_postgres() { pg_isready -q -h 127.0.0.1 -p "$PORT" -t 5; }

# --- Prometheus

prepare_prometheus() { ADDRESS=http://127.0.0.1:$PORT; }

run_prometheus() {
    [[ " $*" == *" --config.file"* ]] || set -- --config.file="$here/services.d/prometheus.yml" "$@"
    beside prometheus --storage.tsdb.path="$DIR/data" --web.listen-address="127.0.0.1:$PORT" "$@"
}

answers_prometheus() { http /-/ready Ready; }

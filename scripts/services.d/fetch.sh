#!/usr/bin/env bash
# Brings each service: jars and binaries into a cache keyed by version, packages by apt; sourced by scripts/services.

readonly NAMES=(kafka etcd etcd-oldest postgres prometheus)
cache=${BARRAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/barrage}

# Where Debian keeps PostgreSQL's programs; 15 comes last so that it is found after it has been installed.
postgres_paths() {
    local bin
    for bin in /usr/lib/postgresql/15/bin /usr/lib/postgresql/*/bin; do
        [[ ":$PATH:" == *":$bin:"* ]] || PATH=$PATH:$bin
    done
}
postgres_paths

known() { [[ " ${NAMES[*]} " == *" ${1:-none} "* ]]; }

version_kafka() { sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$here/services.d/kafka/pom.xml"; }
version_etcd() { sed -n 's|.*go.etcd.io/etcd/server/v3 v||p' "$here/services.d/etcd/go.mod"; }
version_etcd_oldest() { etcd --version 2>/dev/null | sed -n 's/^etcd Version: //p' | grep . || echo missing; }
version_postgres() { postgres --version 2>/dev/null | sed 's/[^0-9]*\([0-9.]*\).*/\1/' | grep . || echo missing; }
version_prometheus() {
    prometheus --version 2>&1 | sed -n '1s/.*version \([0-9.]*\).*/\1/p' | grep . || echo missing
}

# into NAME FUNCTION: FUNCTION fills the directory it is given, which then becomes $cache/NAME: whole or not at all,
# and by one run at a time.
into() {
    local name=$1 fill=$2
    [ ! -d "$cache/$name" ] || return 0
    mkdir -p "$cache" || return 1
    (
        flock -n 7 || { say "waiting for another run, which fetches $name"; flock 7; }
        [ ! -d "$cache/$name" ] || exit 0
        new=$(mktemp -d "$cache/.$name.XXXXXX") || exit 1
        trap 'rm -rf "$new"' EXIT
        say "fetching $name"
        if ! "$fill" "$new" >"$cache/$name.log" 2>&1; then
            say "$name could not be fetched; the end of $cache/$name.log:"
            tail -n 25 "$cache/$name.log" >&2
            exit 1
        fi
        mv -T "$new" "$cache/$name"
    ) 7>"$cache/.$name.lock"
}

# java_ready: Kafka's broker needs Java 17.
java_ready() {
    local version
    bring openjdk-17-jre-headless java || return 1
    version=$(java -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ] && return 0
    say "Kafka needs Java 17 or newer, and \`java\` is ${version:-of no known version}"
    return 1
}

fill_kafka() {
    mvn -B -q -f "$here/services.d/kafka/pom.xml" dependency:copy-dependencies -DoutputDirectory="$1/libs" &&
        [ -f "$1/libs/kafka_2.13-$(version_kafka).jar" ]
}

fetch_kafka() {
    java_ready || return 1
    local version
    version=$(version_kafka)
    [ -d "$cache/kafka-$version" ] || bring maven mvn || return 1
    into "kafka-$version" fill_kafka || return 1
    into "$(kafka_classes)" fill_kafka_classes || say "Kafka will take longer to start"
}

# kafka_classes: the broker's classes as this Java has loaded them once, which saves a third of a start's work.
kafka_classes() { echo "kafka-$(version_kafka)-classes-$(java -version 2>&1 | cksum | cut -d ' ' -f 1)"; }

# Runs a broker for once, and has Java write down what it loaded. Java passes over an archive that does not fit.
fill_kafka_classes() {
    local java
    load /nowhere
    DIR=$1/once
    mkdir "$DIR" && free_port && PORT=$REPLY && free_port && PORT2=$REPLY || return 1
    prepare_kafka && java_kafka "-XX:ArchiveClassesAtExit=$1/classes.jsa" || return 1
    beside "${java[@]}" kafka.Kafka "$DIR/server.properties"
    born "$PID" && BORN=$REPLY && NAME=kafka && answered && kill "$PID" && gone 60 || return 1
    [ -s "$1/classes.jsa" ] && rm -rf "$DIR"
}

# go_ready: from 1.21 on, Go fetches the toolchain that a module asks for.
go_ready() {
    local version
    have go || return 1
    version=$(go version | sed -n 's/.* go1\.\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 21 ]
}

# etcd_possible: whether the newest etcd is in the cache or can be built; it says so where it cannot. In CI
# nothing stands in for it.
etcd_possible() {
    if [ -d "$cache/etcd-$(version_etcd)" ] || go_ready || [ "${CI:-}" = true ]; then
        return 0
    fi
    say "not run: etcd $(version_etcd), which takes Go 1.21 or newer to build; etcd $(version_etcd_oldest) stands in"
    return 1
}

fill_etcd() {
    local version
    version=$(version_etcd)
    cd "$here/services.d/etcd" || return 1
    export GOTOOLCHAIN=auto GOWORK=off GOFLAGS='-mod=readonly -trimpath -buildvcs=false' CGO_ENABLED=0
    go build -o "$1/etcd" go.etcd.io/etcd/server/v3 && go build -o "$1/etcdctl" go.etcd.io/etcd/etcdctl/v3 &&
        [ "$("$1/etcd" --version | sed -n 's/^etcd Version: //p')" = "$version" ]
}

fetch_etcd() {
    local version
    version=$(version_etcd)
    [ ! -d "$cache/etcd-$version" ] || return 0
    if ! go_ready; then
        say "missing: go; hint: etcd $version is built from source, so please install Go 1.21 or newer"
        return 1
    fi
    into "etcd-$version" fill_etcd
}

fetch_etcd_oldest() { bring etcd-server etcd; }
fetch_postgres() { bring postgresql-15 initdb postgres pg_isready; }
fetch_prometheus() { bring prometheus prometheus promtool; }

fetch() {
    local name failed=0
    [ $# -gt 0 ] || set -- "${NAMES[@]}"
    for name in "$@"; do
        known "$name" || usage
        if [ "$name" = etcd ] && ! etcd_possible; then name=etcd-oldest; fi
        "fetch_${name//-/_}" || failed=1
    done
    return $failed
}

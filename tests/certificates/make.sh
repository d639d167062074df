#!/usr/bin/env bash
# Makes the certificates of these tests anew, in the folder it stands in. The keys of the authorities are not kept.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
long=(-startdate 20200101000000Z -enddate 21200101000000Z)
over=(-startdate 20200101000000Z -enddate 20210101000000Z)
ahead=(-startdate 21190101000000Z -enddate 21200101000000Z)

configuration() { # authority
    mkdir -p "$work/$1"
    : >"$work/$1/index.txt"
    echo 01 >"$work/$1/serial"
    printf '%s\n' '[ca]' 'default_ca=one' '[one]' "database=$work/$1/index.txt" "new_certs_dir=$work/$1" \
        "serial=$work/$1/serial" 'default_md=sha256' 'policy=any' 'unique_subject=no' '[any]' \
        'commonName=supplied' 'organizationName=optional' >"$work/$1/ca.cnf"
}

request() { # name subject
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$work/$1.key" -out "$work/$1.csr"
}

authority() { # name subject
    configuration "$1"
    request "$1" "$2"
    printf '%s\n' 'basicConstraints=critical,CA:TRUE' 'keyUsage=critical,keyCertSign,cRLSign' >"$work/extensions"
    openssl ca -batch -notext -config "$work/$1/ca.cnf" -selfsign -keyfile "$work/$1.key" -in "$work/$1.csr" \
        -extfile "$work/extensions" "${long[@]}" -out "$1.pem"
}

leaf() { # name subject extension authority times...
    request "$1" "$2"
    printf '%s\n' 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' "$3" >"$work/extensions"
    openssl ca -batch -notext -config "$work/$4/ca.cnf" -cert "$4.pem" -keyfile "$work/$4.key" -in "$work/$1.csr" \
        -extfile "$work/extensions" "${@:5}" -out "$1.pem"
    cp "$work/$1.key" "$1.key"
}

names='subjectAltName=IP:127.0.0.1,DNS:localhost'
authority authority '/CN=Portico tests'
authority others '/CN=Somebody else'
leaf gateway /CN=gateway "$names" authority "${long[@]}"
leaf gateway_2 /CN=gateway-2 "$names" authority "${long[@]}"
leaf expired /CN=expired "$names" authority "${over[@]}"
leaf ahead /CN=ahead "$names" authority "${ahead[@]}"
leaf app /O=tests/CN=app extendedKeyUsage=clientAuth authority "${long[@]}"
leaf nobody /CN=nobody extendedKeyUsage=clientAuth authority "${long[@]}"
leaf late_app /CN=app extendedKeyUsage=clientAuth authority "${over[@]}"
leaf impostor /CN=app extendedKeyUsage=clientAuth others "${long[@]}"

# Signs itself: for the port that serves by names.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj /CN=names \
    -addext 'subjectAltName=DNS:*.kafka.test' -addext 'extendedKeyUsage=serverAuth' -keyout names.key -out names.pem

#!/bin/sh
# For keepalived: 0 while the gateway of this host turns.
#
#   check-gateway.sh [ADDRESS:PORT]    [metrics] listen of the gateway; default 127.0.0.1:9464
#
# /healthz, not /readyz: a backend that is gone is gone for both gateways, and the address should not wander between them.
exec curl --silent --fail --max-time 1 --output /dev/null "http://${1:-127.0.0.1:9464}/healthz"

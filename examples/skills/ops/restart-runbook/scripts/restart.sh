#!/bin/sh
set -eu
kubectl rollout restart "deployment/$1" --context "$2"
kubectl rollout status "deployment/$1" --context "$2"

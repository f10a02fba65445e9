#!/bin/sh
# A program of a run in shell: a number that learns to be 1. Copy this file, and change it.
set -eu

# publish FILE TEXT: write it whole, so that no reader sees a part of it.
publish() {
    echo "$2" >"$1.part"
    mv "$1.part" "$1"
}

x=0
[ -z "${HPCPOD_CHECKPOINT:-}" ] || x=$(cat "$HPCPOD_CHECKPOINT/x")

steps=0
if [ "$HPCPOD_MODE" = train ]; then
    while [ "$steps" -lt "$HPCPOD_STEPS" ] && [ ! -e "$HPCPOD_STOP_FILE" ]; do
        x=$(awk -v x="$x" -v rate="$HPCPOD_P_LEARNING_RATE" 'BEGIN { print x + rate * (1 - x) }')
        steps=$((steps + 1))
        echo "{\"steps\": $steps, \"x\": $x}" >>"$HPCPOD_PROGRESS_TO"
        echo "$x" >"$HPCPOD_SAVE_TO/x"
        if [ $((steps % 50)) = 0 ]; then # an interrupted round goes on from here
            publish "$HPCPOD_SESSION/saved-$steps.json" "{\"format\": 1, \"steps\": $steps}"
            while [ -e "$HPCPOD_SESSION/saved-$steps.json" ]; do sleep 0.02; done
        fi
    done
fi

returns=""
for seed in $HPCPOD_PANEL_SEEDS; do
    played=$(awk -v x="$x" -v seed="$seed" 'BEGIN { srand(seed); print x + 0.1 * (rand() - 0.5) }')
    returns="$returns${returns:+, }$played"
done
publish "$HPCPOD_REPORT_TO" "{\"format\": 1, \"steps\": $steps, \"returns\": [$returns]}"

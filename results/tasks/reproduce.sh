#!/bin/bash
# The main figures of results/tasks: prepares, trains and scores all systems with the shipped recipes, seed 1, one thread each.
#
#   results/tasks/reproduce.sh CORPORA [aeslc|ua-gec|jfleg …]
#
# CORPORA has the files of docs/corpora/{aeslc,ua-gec,jfleg}.md in folders of those names, and for JFLEG's clean text also
# multi30k/train.en.gz and enja/train.en.gz. Works in the current folder; rerun the same command to resume.
set -euo pipefail
here=$(dirname "$(realpath "$0")") corpora=$(realpath "$1"); shift
train() { lamina train "$@" --threads 1; }

aeslc() {
    local files=$corpora/aeslc options=()
    lamina prepare --train-pairs "$files/train.jsonl.gz" --valid-pairs "$files/dev.jsonl.gz" --fields body subject \
        --lowercase --vocab-size 4000 --max-source 80 --no-filter long,ratio --langs en en --out data/aeslc
    for side in body subject; do
        zcat "$files/dev.jsonl.gz" | python -c "import json, sys
for line in sys.stdin: print(*json.loads(line)['$side'].split())" > "aeslc.dev.$side"
    done
    for system in transformer surface-fusion pointer-generator msc-surface; do
        train "aeslc-$system" --data data/aeslc --set train.max_steps=1000
        options+=("runs/aeslc-$system")
    done
    lamina compare "${options[@]}" --baseline lead-1 --baseline copy --test aeslc.dev.body aeslc.dev.subject --metric rouge
}

ua-gec() {
    local files=$corpora/ua-gec options=()
    for name in train.src train.tgt dev.src dev.tgt test-part.m2; do zcat "$files/$name.gz" > "ua-gec.$name"; done
    lamina prepare --train ua-gec.train.src ua-gec.train.tgt --valid ua-gec.dev.src ua-gec.dev.tgt --langs uk uk \
        --vocab-size 6000 --out data/ua-gec
    lamina edits --source ua-gec.train.src --hyp ua-gec.train.tgt --output ua-gec.train.m2 --force
    cp "$here/ua-gec-errors.yaml" .
    lamina noise --lang uk --input ua-gec.train.tgt --output ua-gec.noisy.src ua-gec.noisy.tgt \
        --errors ua-gec-errors.yaml --force
    lamina prepare --train ua-gec.noisy.src ua-gec.noisy.tgt --valid ua-gec.dev.src ua-gec.dev.tgt \
        --text-from data/ua-gec --out data/ua-gec-noisy
    for system in transformer surface-fusion pointer-generator; do # 2,000 updates each
        train "ua-gec-$system" --data data/ua-gec --out "runs/ua-gec-$system-plain"
        train "ua-gec-$system" --data data/ua-gec-noisy --out "runs/ua-gec-$system-noisy" \
            --set train.max_steps=1000
        train "ua-gec-$system" --data data/ua-gec --init-from "runs/ua-gec-$system-noisy" \
            --out "runs/ua-gec-$system-pretrained" --set train.max_steps=1000 --set train.lr=1e-3 --set train.warmup=100
        train "ua-gec-$system" --data data/ua-gec --init-from "runs/ua-gec-$system-noisy" \
            --out "runs/ua-gec-$system-pretrained-weighted" --set train.max_steps=1000 --set train.lr=1e-3 \
            --set train.warmup=100 --set train.edit_weight=3
        options+=("runs/ua-gec-$system-plain" "runs/ua-gec-$system-pretrained" "runs/ua-gec-$system-pretrained-weighted")
    done
    lamina compare "${options[@]}" --test ua-gec.test-part.m2 ua-gec.test-part.m2 --metric m2
}

jfleg() {
    local files=$corpora/jfleg
    for name in src ref0 ref1 ref2 ref3; do zcat "$files/dev.$name.gz" > "jfleg.dev.$name"; done
    python "$here/clean_english.py" "$corpora/aeslc/train.jsonl.gz" "$corpora/multi30k/train.en.gz" \
        "$corpora/enja/train.en.gz" > jfleg.clean
    lamina noise --lang en --input jfleg.clean --output jfleg.noisy.src jfleg.noisy.tgt \
        --errors "$here/jfleg-errors.yaml" --force
    lamina prepare --train jfleg.noisy.src jfleg.noisy.tgt --valid jfleg.dev.src jfleg.dev.ref1 --langs en en \
        --vocab-size 5000 --out data/jfleg
    train jfleg-synthetic-pointer-generator --data data/jfleg --out runs/jfleg-pointer-generator
    train jfleg-synthetic-pointer-generator --data data/jfleg --init-from runs/jfleg-pointer-generator \
        --out runs/jfleg-pointer-generator-continued --set train.max_steps=2000 --set train.lr=1e-3 \
        --set train.warmup=100 --set train.seed=2
    lamina compare runs/jfleg-pointer-generator runs/jfleg-pointer-generator-continued --baseline copy --test jfleg.dev.src jfleg.dev.ref0 \
        --ref jfleg.dev.ref1 --ref jfleg.dev.ref2 --ref jfleg.dev.ref3 --metric gleu
}

for task in "${@:-aeslc ua-gec jfleg}"; do for each in $task; do "$each"; done; done

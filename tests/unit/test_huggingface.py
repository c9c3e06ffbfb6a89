"""Exports to transformers compute the same as Lamina, and unsupported parts are rejected by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lamina.errors import UsageError
from lamina.interop.huggingface import export_huggingface
from lamina.interop.huggingface.tokenizer import describe_tokenizer
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.systems.build import build
from lamina.systems.published import SYSTEMS
from lamina.text.pipeline import TextPipeline, make_pipeline, pipeline_of_words
from lamina.text.subwords import learn_sentencepiece
from lamina.text.vocabulary import Vocabularies
from support import WORDS, make_batch, run_lamina, save, scramble, small

TEXT = pipeline_of_words(Vocabularies(WORDS, WORDS))
DECODE = SearchSettings(beam=4, lenpen=0.6)
PLAIN = ("transformer", "transformer-post")


@pytest.mark.parametrize("system", PLAIN)
def test_the_files(system: str, tmp_path: Path) -> None:
    export_huggingface(small(system), TEXT, DECODE, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        *("config.json", "generation_config.json", "model.safetensors", "README.md"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    kinds = {"transformer": "PegasusForConditionalGeneration", "transformer-post": "MarianMTModel"}
    assert config["architectures"] == [kinds[system]]
    assert (generation["num_beams"], generation["length_penalty"]) == (4, 0.6)
    assert "model.encoder.embed_positions.weight" in load_file(tmp_path / "out" / "model.safetensors")


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name not in PLAIN])
def test_every_other_system_is_rejected_by_its_socket(system: str, tmp_path: Path) -> None:
    model = small(system)
    with pytest.raises(UsageError) as refusal:
        export_huggingface(model, TEXT, DECODE, tmp_path / "out")
    message = str(refusal.value)
    odd = Counter({model.config.encoder.type, model.config.bridge.type, model.config.head.type})
    odd.update([model.config.decoder.attention, model.config.decoder.wiring])
    for fits in ("stack", "top", "softmax", "self", "residual"):
        odd.pop(fits, None)
    assert message.startswith("Hugging Face transformers does not support ")
    assert all(f"`{choice}`" in message for choice in odd)
    assert message.endswith("ONNX does: `lamina export --to onnx`.")
    assert not (tmp_path / "out").exists()


def test_errors_on_the_command_line(tmp_path: Path) -> None:
    save(small("transformer", share_embeddings="none"), tmp_path / "model")
    assert run_lamina("export", tmp_path / "model", "--to", "huggingface", "--out", tmp_path / "out") == (
        2,
        "",
        "lamina: Hugging Face transformers does not support share_embeddings `none` with pre-norm (Pegasus has a "
        "single embedding matrix). ONNX does: `lamina export --to onnx`.\n",
    )
    assert run_lamina("export", tmp_path / "model", "--to", "huggingface", "--int8", "--out", tmp_path / "out") == (
        2,
        "",
        "lamina: --int8: `transformers` quantises models when it loads them; use --to onnx or --to ctranslate2.\n",
    )


def test_documents(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        export_huggingface(small("transformer"), TEXT.for_documents(True, 640), DECODE, tmp_path / "out")
    assert str(refusal.value) == (
        "Hugging Face transformers does not support `prepare --sentences` (its tokenizers do not mark sentence "
        "boundaries). ONNX does: `lamina export --to onnx`."
    )
    for longest, found in ((None, 1024), (640, 640), (4000, 1024)):
        out = tmp_path / str(longest)
        export_huggingface(small("transformer"), TEXT.for_documents(False, longest), DECODE, out)
        assert json.loads((out / "tokenizer_config.json").read_text())["model_max_length"] == found
        assert f"Sources may have up to {found} tokens" in (out / "README.md").read_text()


def pieces(lowercase: bool = False) -> TextPipeline:
    lines = [
        f"The {a} {b} sees the {c} … and „{a}“, 3{n}!"
        for n, a in enumerate(("dog", "cat", "bird"))
        for b in ("runs", "sings", "jumps")
        for c in ("house", "tree", "café")
    ] * 3
    model = learn_sentencepiece(lines, 330, lowercase=lowercase)
    return make_pipeline("sentencepiece", ("en", "de"), False, {"subwords.model": model})


@pytest.mark.parametrize("lowercase", [False, True])
def test_the_tokenizer_normalises_like_lamina(lowercase: bool) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    text = pieces(lowercase)
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(describe_tokenizer(text, 1024)["tokenizer.json"]))
    lines = [
        *("THE DOG Sings  twice,   and The CAFÉ.", "ﬁne ﬂat ½ ² ﷺ", "ＦＵＬＬ　ｗｉｄｔｈ ｶﾞﾊﾟ", "", "  "),
        *(
            "Straße ẞ ΣΑΣ",
            "İstanbul I\u0307stanbul i\u0307stanbul Isı",
            "Ọ̀ Ẹ́ R\u0351 Ǆ ŉ ᾼ",
            "¨ x ¨¨ ´",
            "각 ᄀ 👨‍👩‍👧 🇩🇪 Ⅷ",
        ),
    ]
    lines += [f"a{chr(code)}B {chr(code)} c" for code in range(0x3100) if code != 0x2581]  # SentencePiece's own space
    own, found = text.source.encode(lines), tokenizer.encode_batch(lines)
    assert [line for line, ids, each in zip(lines, own, found, strict=True) if ids != each.ids] == []
    if lowercase:
        assert tokenizer.encode("THE DOG").ids == tokenizer.encode("the dog").ids


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_transformers_loads_a_tokenizer_that_lowercases(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    text = pieces(lowercase=True)
    entries = len(text.source.vocabulary)
    sizes: dict[str, Any] = {"d_model": 32, "ffn_size": 48, "heads": 4}
    export_huggingface(build(size="tiny", vocab_size=(entries, entries), **sizes), text, DECODE, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    lines = ["THE DOG Sings  twice.", "ﬁne ＦＵＬＬ　ｗｉｄｔｈ ½", "İstanbul Straße Ọ̀"]
    assert tokenizer(lines).input_ids == text.source.encode(lines)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "own",
    [
        {"norm": "pre"},
        {"norm": "post"},
        {"norm": "post", "share_embeddings": "none"},
        {"norm": "post", "share_embeddings": "decoder"},
    ],
    ids=str,
)
def test_transformers_gives_the_same_results(own: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    text = pieces()
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"d_model": 32, "ffn_size": 48, "heads": 4, "dropout": 0.0}
    entries = len(text.source.vocabulary)
    model: Seq2Seq = scramble(build(size="tiny", vocab_size=(entries, entries), **sizes, **own).eval())
    export_huggingface(model, text, DECODE, tmp_path / "out")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    lines = ["The dog runs.", "", "  „Ünïcode“ 汉字 😀\tand  spaces ", "3 birds see the café …"]
    assert tokenizer(lines).input_ids == text.source.encode(lines)
    decoded = tokenizer.batch_decode(text.source.encode(lines), skip_special_tokens=True)
    assert decoded == [text.target.decode(ids) for ids in text.source.encode(lines)]
    batch = make_batch((5, 2, 9), (4, 6, 3))
    with torch.no_grad():
        expected = model.log_probs(batch.source_BS, batch.prefix_BT)
        logits = theirs(
            batch.source_BS, attention_mask=(batch.source_BS != 1).long(), decoder_input_ids=batch.prefix_BT
        ).logits
    real = batch.prefix_BT != 1
    torch.testing.assert_close(logits.log_softmax(dim=-1)[real], expected[real], rtol=1e-4, atol=1e-4)

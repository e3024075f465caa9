#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tiny_model.py FOLDER, or tiny_model.py gguf FILE: a Llama with random weights and one token per
byte, as transformers reads it, and as llama.cpp does."""

import sys

# Heads of 64: vLLM's CPU attention does not support 16.
VOCABULARY, WIDTH, LAYERS, HEADS, INNER, CONTEXT = 259, 128, 2, 2, 128, 2048
LETTERS = range(ord("a"), ord("z") + 1)
TEMPLATE = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"


def byte_letters():
    """The letter for each byte in byte-level BPE (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return letters


def for_transformers(folder):
    import torch
    import tokenizers
    import transformers
    letters = byte_letters()
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2, **{letters[b]: b + 3 for b in range(256)}}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges=[]))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT, bos_token_id=0, eos_token_id=1, pad_token_id=1)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():  # only letters: a token is a character, and none is the end
        for token in range(VOCABULARY):
            if token - 3 not in LETTERS:
                model.lm_head.weight[token] = 0
    model.save_pretrained(folder)


def for_llama_cpp(path):
    import gguf
    import numpy
    rng = numpy.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)
    # SentencePiece's bytes: a token for each, and no merges.
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3] + [6] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)

    def add(name, *shape):
        values = rng.standard_normal(shape, dtype=numpy.float32) * 0.05
        if name == "output.weight":
            for token in range(VOCABULARY):
                if token - 3 not in LETTERS:
                    values[token] = 0
        writer.add_tensor(name, numpy.ones(shape, numpy.float32) if "norm" in name else values)

    add("token_embd.weight", VOCABULARY, WIDTH)
    add("output_norm.weight", WIDTH)
    add("output.weight", VOCABULARY, WIDTH)
    for i in range(LAYERS):
        for part in ("attn_norm", "ffn_norm"):
            add(f"blk.{i}.{part}.weight", WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{i}.{part}.weight", WIDTH, WIDTH)
        for part in ("ffn_gate", "ffn_up"):
            add(f"blk.{i}.{part}.weight", INNER, WIDTH)
        add(f"blk.{i}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "gguf":
        for_llama_cpp(sys.argv[2])
    else:
        for_transformers(sys.argv[1])

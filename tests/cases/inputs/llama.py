"""Writes a Hugging Face checkpoint of a tiny Llama, with finite numbers from a seed, into the folder that is named."""

import json
import os
import random
import struct
import sys

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_attention_heads": 8, "num_key_value_heads": 2,
          "num_hidden_layers": 4, "intermediate_size": 48, "vocab_size": 1000, "max_position_embeddings": 64,
          "tie_word_embeddings": False}

shapes = {"model.embed_tokens.weight": [1000, 32], "model.norm.weight": [32], "lm_head.weight": [1000, 32]}
for layer in range(4):
    for name, shape in {"self_attn.q_proj": [32, 32], "self_attn.k_proj": [8, 32], "self_attn.v_proj": [8, 32],
                        "self_attn.o_proj": [32, 32], "mlp.gate_proj": [48, 32], "mlp.up_proj": [48, 32],
                        "mlp.down_proj": [32, 48], "input_layernorm": [32], "post_attention_layernorm": [32]}.items():
        shapes[f"model.layers.{layer}.{name}.weight"] = shape
generator, header, data = random.Random(1), {}, b""
for name, shape in sorted(shapes.items()):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    words = [generator.getrandbits(16) & 0xbfff for _ in range(count)]  # without the highest bit of the exponent
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + 2 * count]}
    data += struct.pack(f"<{count}H", *words)
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
os.makedirs(sys.argv[1])
with open(f"{sys.argv[1]}/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
with open(f"{sys.argv[1]}/config.json", "w") as file:
    json.dump(CONFIG, file)

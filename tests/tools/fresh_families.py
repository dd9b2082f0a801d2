"""Models of six families as one trains them from scratch, with their initial values: zero biases, unit scales, copied layers.

Each is small, without dropout, and with heads of 16: exporters write the scale of attention as two factors, whose rounding to
float32 is none where they are 1/2, so that PyTorch's numbers in float64 are the file's.
"""
import inspect

import torch
import torchvision
import transformers
from torch import nn

SAMPLES, PLACES, WORDS, WIDTH, HEADS, LAYERS, CLASSES = 24, 8, 20, 32, 2, 3, 5


def drawn():
    return torch.Generator().manual_seed(2)


def case(make, inputs, labels, **more):
    """What tools/make-check-folder wants of a factory; `make` gives the module, fresh with the same numbers each time. `training`:
    the mode in which it is exported and trained."""
    def fresh(seed=1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = make()
        return module.train(more.get("training", False))
    return {"fresh": fresh, "module": fresh(), "inputs": inputs, "outputs": ["logits"], "labels": {"y": labels},
            "loss": [{"kind": "cross_entropy", "output": "logits", "labels": "y", "class_axis": -1}], "training": False, "learning_rate": 1e-3, **more}


def words():
    """None is 0, of which some tables take no gradient, as a file by the older exporter does not say."""
    return torch.randint(1, WORDS, (SAMPLES, PLACES), generator=drawn())


def images(size):
    return torch.randn(SAMPLES, 3, size, size, generator=drawn())


def classes():
    return torch.arange(SAMPLES) * 7 % CLASSES


class LanguageModel(nn.Module):
    """With a mask of its own: without one the older exporter has no operator for what transformers makes instead."""

    def __init__(self, **sizes):
        super().__init__()
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, attn_implementation="sdpa", **sizes))

    def forward(self, words):
        return self.model(input_ids=words, attention_mask=torch.ones_like(words), use_cache=False).logits


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=2 * WIDTH,
            max_position_embeddings=PLACES, attn_implementation="sdpa", num_labels=CLASSES))

    def forward(self, words, seen):
        return self.model(input_ids=words, attention_mask=seen).logits


class Encoder(nn.Module):
    """Its layers are copies of one, equal and trained apart."""

    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0, batch_first=batch_first)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(words)
        x = self.layers(x) if self.batch_first else self.layers(x.transpose(0, 1)).transpose(0, 1)
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.words(words))[0])


class Plain(nn.Module):
    """Whose biases are zero as those of the others."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(),
                                   nn.Linear(WIDTH, CLASSES))
        for part in self.parts:
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, x):
        return self.parts(x)


def small_resnet():
    return torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=CLASSES)


def small_vit():
    return torchvision.models.VisionTransformer(image_size=16, patch_size=4, num_layers=LAYERS, num_heads=HEADS, hidden_dim=WIDTH,
                                                mlp_dim=2 * WIDTH, num_classes=CLASSES)


def gpt2():
    sizes = {"vocab_size": WORDS, "n_positions": PLACES, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
             "bos_token_id": None, "eos_token_id": None}
    return case(lambda: LanguageModel(**sizes), {"words": words()}, words().flip(1))


def gpt2_small():
    """Of the real size: 124 million parameters."""
    return case(LanguageModel, {"words": words()}, words().flip(1))


def bert():
    seen = (torch.arange(PLACES) < torch.arange(SAMPLES)[:, None] % PLACES + 1).to(torch.int64)
    return case(Classifier, {"words": words(), "seen": seen}, classes())


def encoder():
    return case(lambda: Encoder(batch_first=True), {"words": words()}, words().flip(1))


def encoder_places_first():
    return case(lambda: Encoder(batch_first=False), {"words": words()}, words().flip(1))


def resnet():
    # At the others' rate it learns its samples by heart, and losses near 0 have no digits to compare.
    return case(small_resnet, {"images": images(32)}, classes(), training=True, learning_rate=1e-5)


def vit():
    return case(small_vit, {"images": images(16)}, classes(), learning_rate=5e-4)


def lstm():
    return case(Recurrent, {"words": words()}, words().flip(1))


def plain():
    return case(Plain, {"x": torch.randn(SAMPLES, WIDTH, generator=drawn())}, classes())


FAMILIES = [gpt2, bert, encoder, encoder_places_first, resnet, vit, lstm, plain]


def export(case, exporter, path):
    """Any number of samples; in training mode nothing is computed beforehand."""
    names, examples = list(case["inputs"]), tuple(tensor[:4] for tensor in case["inputs"].values())
    named = dict(input_names=names, output_names=case["outputs"])
    if exporter == "dynamo":
        batch = torch.export.Dim("batch", min=1)
        forward = list(inspect.signature(case["module"].forward).parameters)[:len(names)]
        torch.onnx.export(case["module"], examples, path, dynamo=True, external_data=False, verbose=False,
                          dynamic_shapes={name: {0: batch} for name in forward}, **named)
        return
    mode = torch.onnx.TrainingMode.TRAINING if case["training"] else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(case["module"], examples, path, dynamo=False, opset_version=17, training=mode,
                      do_constant_folding=not case["training"],
                      dynamic_axes={name: {0: "batch"} for name in names + case["outputs"]}, **named)

"""The models that tests/bench/raw_speed.py trains: the module as one exports it, and as one writes it for PyTorch's speed.

Weights are those of a seed, without dropout unless the name says so, so that both sides compute the same numbers. `USUAL` are models at
the sizes that papers train on GPUs; `TINY` are the same modules at a size for tests.
"""
import warnings

import torch
import torchvision
import transformers
from torch import nn

WORDS, PLACES, WIDTH, HEADS, CLASSES = 1000, 128, 256, 4, 100


class LanguageModel(nn.Module):
    """With a mask of its own where the older exporter asks for one: without it has no operator for what transformers makes instead."""

    def __init__(self, model, masked):
        super().__init__()
        self.model, self.masked = model, masked

    def forward(self, words):
        mask = torch.ones_like(words) if self.masked else None
        return self.model(input_ids=words, attention_mask=mask, use_cache=False).logits


class Classifier(nn.Module):
    def __init__(self, layers, width, heads, places, words):
        super().__init__()
        self.model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width,
            max_position_embeddings=places, attn_implementation="sdpa", num_labels=CLASSES, hidden_dropout_prob=0,
            attention_probs_dropout_prob=0))

    def forward(self, words, seen):
        return self.model(input_ids=words, attention_mask=seen).logits


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, width), nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.words(words))[0])


def words(samples, places=PLACES, count=WORDS):
    return torch.randint(1, count, (samples, places))


def images(samples, pixels=64):
    return torch.randn(samples, 3, pixels, pixels)


def classes(samples):
    return torch.randint(0, CLASSES, (samples,))


class Model:
    """`optimizer`: of the step. `training`: exported and trained in training mode."""

    optimizer, learning_rate, training, batches, dropout = "adam", 1e-4, False, (16, 4), 0

    def module(self, exporter):
        """The one that `exporter` (dynamo or legacy) writes."""

    def rival(self):
        """The same function by PyTorch's fastest modules, with parameters in the same order."""
        return self.module("dynamo")

    def inputs(self, samples):
        return {"words": words(samples)}

    def labels(self, samples):
        return words(samples)


class Gpt2(Model):
    sizes = {"vocab_size": WORDS, "n_positions": PLACES, "n_embd": WIDTH, "n_layer": 8, "n_head": HEADS, "bos_token_id": None,
             "eos_token_id": None}

    def language_model(self, masked, activation):
        return LanguageModel(transformers.GPT2LMHeadModel(transformers.GPT2Config(
            use_cache=False, attn_implementation="sdpa", activation_function=activation, resid_pdrop=self.dropout,
            embd_pdrop=self.dropout, attn_pdrop=self.dropout, **self.sizes)), masked)

    def module(self, exporter):
        return self.language_model(exporter == "legacy", "gelu_new")

    def rival(self):
        return self.language_model(False, "gelu_pytorch_tanh")


class Gpt2Small(Gpt2):
    """Of the real size: 124 million parameters."""

    sizes, batches = {}, (4,)

    def inputs(self, samples):
        return {"words": words(samples, 64, 50257)}

    def labels(self, samples):
        return words(samples, 64, 50257)


class SizedGpt2(Gpt2):
    def __init__(self, layers, width, heads, places, batch, word_count=WORDS, dropout=0):
        self.sizes = {**Gpt2.sizes, "vocab_size": word_count, "n_positions": places, "n_embd": width, "n_layer": layers, "n_head": heads}
        self.places, self.word_count, self.batches, self.optimizer = places, word_count, (batch,), "adamw"
        self.dropout = dropout

    def inputs(self, samples):
        return {"words": words(samples, self.places, self.word_count)}

    def labels(self, samples):
        return words(samples, self.places, self.word_count)


class Llama(Model):
    def module(self, exporter):
        return LanguageModel(transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=688, num_hidden_layers=6, num_attention_heads=HEADS,
            num_key_value_heads=HEADS // 2, max_position_embeddings=PLACES, use_cache=False, attn_implementation="sdpa",
            bos_token_id=None, eos_token_id=None)), exporter == "legacy")

    def rival(self):
        model = self.module("dynamo")
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, transformers.models.llama.modeling_llama.LlamaRMSNorm):
                    norm = nn.RMSNorm(WIDTH, eps=child.variance_epsilon)
                    norm.weight = child.weight
                    setattr(module, name, norm)
        return model


class Bert(Model):
    layers, width, heads, places, word_count = 6, WIDTH, HEADS, PLACES, WORDS

    def module(self, exporter):
        return Classifier(self.layers, self.width, self.heads, self.places, self.word_count)

    def inputs(self, samples):
        seen = torch.arange(self.places) < torch.randint(self.places // 2, self.places + 1, (samples, 1))
        return {"words": words(samples, self.places, self.word_count), "seen": seen.to(torch.int64)}

    def labels(self, samples):
        return classes(samples)


class SizedBert(Bert):
    def __init__(self, layers, width, heads, places, word_count, batch):
        self.layers, self.width, self.heads, self.places, self.word_count = layers, width, heads, places, word_count
        self.batches, self.optimizer = (batch,), "adamw"


class Vit(Model):
    layers, width, heads, pixels, patch = 6, WIDTH, HEADS, 64, 8

    def module(self, exporter):
        model = torchvision.models.VisionTransformer(image_size=self.pixels, patch_size=self.patch, num_layers=self.layers,
                                                     num_heads=self.heads, hidden_dim=self.width, mlp_dim=4 * self.width,
                                                     num_classes=CLASSES)
        nn.init.trunc_normal_(model.heads.head.weight, std=0.02)  # torchvision's zeros would make the first loss the same for all weights
        return model

    def inputs(self, samples):
        return {"x": images(samples, self.pixels)}

    def labels(self, samples):
        return classes(samples)


class SizedVit(Vit):
    def __init__(self, layers, width, heads, pixels, patch, batch):
        self.layers, self.width, self.heads, self.pixels, self.patch = layers, width, heads, pixels, patch
        self.batches, self.optimizer = (batch,), "adamw"


class Resnet50(Vit):
    """At a rate at which steps can be compared: at 1e-3 a fresh one in float32 is a hundredth off its own float64 after one step."""

    optimizer, learning_rate, training = "sgd", 2e-7, True

    def module(self, exporter):
        return torchvision.models.resnet50(num_classes=CLASSES)


class SizedResnet(Resnet50):
    def __init__(self, blocks, pixels, batch):
        self.blocks, self.pixels, self.batches, self.optimizer = blocks, pixels, (batch,), "adamw"

    def module(self, exporter):
        return torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, self.blocks, num_classes=CLASSES)


class Lstm(Model):
    width, places = WIDTH, PLACES

    def module(self, exporter):
        return Recurrent(self.width)

    def inputs(self, samples):
        return {"words": words(samples, self.places)}

    def labels(self, samples):
        return words(samples, self.places)


class SizedLstm(Lstm):
    def __init__(self, width, places, batch):
        self.width, self.places, self.batches = width, places, (batch,)


SMALL = {"gpt2": Gpt2(), "bert": Bert(), "vit": Vit(), "resnet50": Resnet50(), "llama": Llama(), "lstm": Lstm(), "gpt2-small": Gpt2Small()}
MEDIUM = {"layers": 24, "width": 1024, "heads": 16, "places": 1024, "batch": 4, "word_count": 50257}
USUAL = {"gpt2-medium": SizedGpt2(**MEDIUM), "gpt2-medium-dropout": SizedGpt2(**MEDIUM, dropout=0.1),
         "bert-large": SizedBert(layers=24, width=1024, heads=16, places=512, word_count=30522, batch=8),
         "resnet50-224": SizedResnet([3, 4, 6, 3], pixels=224, batch=32),
         "vit-b": SizedVit(layers=12, width=768, heads=12, pixels=224, patch=16, batch=32)}
TINY = {"gpt2-tiny": SizedGpt2(layers=2, width=32, heads=2, places=16, batch=4),
        "gpt2-tiny-dropout": SizedGpt2(layers=2, width=32, heads=2, places=16, batch=4, dropout=0.1),
        "bert-tiny": SizedBert(layers=2, width=32, heads=2, places=16, word_count=100, batch=4),
        "resnet-tiny": SizedResnet([1, 1, 1, 1], pixels=32, batch=4),
        "vit-tiny": SizedVit(layers=2, width=32, heads=2, pixels=32, patch=16, batch=4),
        "lstm-tiny": SizedLstm(width=32, places=8, batch=4)}
MODELS = {**SMALL, **USUAL, **TINY}
FLOAT_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def seeded(make, *arguments, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*arguments)


def with_floats(tensors, float_type):
    return {key: tensor.to(FLOAT_TYPES[float_type]) if tensor.is_floating_point() else tensor for key, tensor in tensors.items()}


def export_program(name, path, float_type="float32"):
    """As torch.export.save writes it, in training mode, with any number of samples. Returns the module."""
    model = MODELS[name]
    module = seeded(model.module, "dynamo").to(FLOAT_TYPES[float_type]).train()
    examples = with_floats(seeded(model.inputs, 4, seed=1), float_type)
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.export.save(torch.export.export(module, tuple(examples.values()), dynamic_shapes=tuple({0: batch} for _ in examples)), path)
    return module


def export(name, exporter, path, float_type="float32", optimize=True):
    """With any number of samples. The newer exporter writes evaluation mode whatever it is asked for: normalisation of batches stays
    a node there, for `rannc-compile --train-batch-norm`, if the file is not optimized. Its optimizer transposes and joins parameters."""
    model = MODELS[name]
    module = seeded(model.module, exporter).to(FLOAT_TYPES[float_type])
    examples = with_floats(seeded(model.inputs, 4, seed=1), float_type)
    legacy_training = model.training and exporter == "legacy"
    module.train(legacy_training)
    names = {"input_names": list(examples), "output_names": ["logits"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            batch = torch.export.Dim("batch", min=1, max=4096)
            torch.onnx.export(module, tuple(examples.values()), path, dynamo=True, external_data=True, verbose=False,
                              optimize=optimize and not model.training, dynamic_shapes=tuple({0: batch} for _ in examples), **names)
            return
        mode = torch.onnx.TrainingMode.TRAINING if legacy_training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(module, tuple(examples.values()), path, dynamo=False, opset_version=17, training=mode,
                          do_constant_folding=not legacy_training,
                          dynamic_axes={each: {0: "batch"} for each in [*examples, "logits"]}, **names)

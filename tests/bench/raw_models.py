"""The models that tests/bench/raw_speed.py trains: the module as one exports it, and as one writes it for PyTorch's speed.

Weights are those of a seed, without dropout, so that both sides compute the same numbers.
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
    def __init__(self):
        super().__init__()
        self.model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=6, num_attention_heads=HEADS, intermediate_size=4 * WIDTH,
            max_position_embeddings=PLACES, attn_implementation="sdpa", num_labels=CLASSES, hidden_dropout_prob=0,
            attention_probs_dropout_prob=0))

    def forward(self, words, seen):
        return self.model(input_ids=words, attention_mask=seen).logits


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.words(words))[0])


def words(samples, places=PLACES, count=WORDS):
    return torch.randint(1, count, (samples, places))


def images(samples):
    return torch.randn(samples, 3, 64, 64)


def classes(samples):
    return torch.randint(0, CLASSES, (samples,))


class Model:
    """`optimizer`: of the step. `training`: exported and trained in training mode."""

    optimizer, learning_rate, training, batches = "adam", 1e-4, False, (16, 4)

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
            use_cache=False, attn_implementation="sdpa", activation_function=activation, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            **self.sizes)), masked)

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


class Gpt2Medium(Gpt2):
    """24 layers of 1024 over 1024 places."""

    sizes, batches = {"vocab_size": WORDS, "n_positions": 1024, "n_embd": 1024, "n_layer": 24, "n_head": 16, "bos_token_id": None,
                      "eos_token_id": None}, (4,)

    def inputs(self, samples):
        return {"words": words(samples, 1024)}

    def labels(self, samples):
        return words(samples, 1024)


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
    def module(self, exporter):
        return Classifier()

    def inputs(self, samples):
        seen = torch.arange(PLACES) < torch.randint(PLACES // 2, PLACES + 1, (samples, 1))
        return {"words": words(samples), "seen": seen.to(torch.int64)}

    def labels(self, samples):
        return classes(samples)


class Vit(Model):
    def module(self, exporter):
        return torchvision.models.VisionTransformer(image_size=64, patch_size=8, num_layers=6, num_heads=HEADS, hidden_dim=WIDTH,
                                                    mlp_dim=4 * WIDTH, num_classes=CLASSES)

    def inputs(self, samples):
        return {"images": images(samples)}

    def labels(self, samples):
        return classes(samples)


class Resnet50(Vit):
    """At a rate at which steps can be compared: at 1e-3 a fresh one in float32 is a hundredth off its own float64 after one step."""

    optimizer, learning_rate, training = "sgd", 2e-7, True

    def module(self, exporter):
        return torchvision.models.resnet50(num_classes=CLASSES)


class Lstm(Model):
    def module(self, exporter):
        return Recurrent()


MODELS = {"gpt2": Gpt2(), "bert": Bert(), "vit": Vit(), "resnet50": Resnet50(), "llama": Llama(), "lstm": Lstm(), "gpt2-small": Gpt2Small(),
          "gpt2-medium": Gpt2Medium()}


def seeded(make, *arguments, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(*arguments)


def export(name, exporter, path):
    """With any number of samples. The newer exporter writes evaluation mode whatever it is asked for: normalisation of batches stays
    a node there, for `rannc-compile --train-batch-norm`, if the file is not optimized."""
    model = MODELS[name]
    module = seeded(model.module, exporter)
    examples = seeded(model.inputs, 4, seed=1)
    legacy_training = model.training and exporter == "legacy"
    module.train(legacy_training)
    names = {"input_names": list(examples), "output_names": ["logits"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            batch = torch.export.Dim("batch", min=1, max=4096)
            torch.onnx.export(module, tuple(examples.values()), path, dynamo=True, external_data=True, verbose=False,
                              optimize=not model.training, dynamic_shapes=tuple({0: batch} for _ in examples), **names)
            return
        mode = torch.onnx.TrainingMode.TRAINING if legacy_training else torch.onnx.TrainingMode.EVAL
        torch.onnx.export(module, tuple(examples.values()), path, dynamo=False, opset_version=17, training=mode,
                          do_constant_folding=not legacy_training,
                          dynamic_axes={each: {0: "batch"} for each in [*examples, "logits"]}, **names)

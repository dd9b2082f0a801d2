"""Small inputs made after public bug reports each do what is right for them (their README says what)."""
import json
import sys

import programs

DIAGNOSTICS = 1

# What rannc-check is run with and what it says. `models`: files of the folder. `micro_batches`: those that must agree with the
# reference. `flags`: of every run. `says`: parts of standard error. `refuses`: parts of the one error where that is what is right.
# `gradients`: False where the references have none. `differs`: the file has lost what the reference computes.
# `undivided`: parts of the error that refuses two micro-batches.
DIVIDED = {"micro_batches": "1,2,3"}
WHOLE = {"micro_batches": "1"}
STAYS = ["so its mini-batches cannot be divided, but 2 micro-batches are requested", "[P15]"]
REPORTS = {
    "ai_onnx_domain_alias": DIVIDED,
    "assert_max_pt2": DIVIDED,
    "auto_pad_dynamic_sizes": DIVIDED,
    "batchnorm_without_running_stats": {**WHOLE, "undivided": ["%logits of sample 0", *STAYS]},
    "batchnorm_without_running_stats_dynamo": {**WHOLE, "undivided": ["node_ReduceMean_1", *STAYS]},
    "concat_along_batch_chunk": DIVIDED,
    "concat_along_batch_chunk_b6": DIVIDED,
    "constant_as_loss_term_pt2": DIVIDED,
    "count_clamped_below_onnx": DIVIDED,
    "cross_entropy_of_probabilities_trace": DIVIDED,
    "cross_entropy_unreduced_pt2": DIVIDED,
    "detach_as_identity_dynamo": DIVIDED,
    "detach_as_identity_rounded_dynamo": DIVIDED,
    "detached_and_live_merged_dynamo": {**DIVIDED, "differs": True, "says": ["warning: ", "%sub_6", "%sub_3", "optimize=False"]},
    "divisor_chunked_sum_pt2": DIVIDED,
    "divisor_computed_mask_pt2": DIVIDED,
    "divisor_positives_pt2": DIVIDED,
    "dots_trace": DIVIDED,
    "dynamic_sizes_pyramid": {**DIVIDED, "says": ["note: requires 2*floor((", "(node '/m/Concat')"]},
    "dynamic_sizes_pyramid_add": {**DIVIDED, "says": ["note: requires 2*floor((", "(node '/m/Add')"]},
    "dynamic_width_flattened": DIVIDED,
    "extent_minus_one": DIVIDED,
    "external_data_in_bodies_inline": DIVIDED,
    "external_data_in_bodies_loop_inner": DIVIDED,
    "external_data_in_bodies_scan_outer": DIVIDED,
    "foreign_operator_on_a_loss_pt2": {**WHOLE, "undivided": ["made by aten.nan_to_num", *STAYS]},
    "graph_edge_index": {**WHOLE, "undivided": ["/a/Gather_2", *STAYS]},
    "graph_edge_index_static": {**WHOLE, "undivided": ["/a/Gather_2", *STAYS]},
    "grid_dynamo": DIVIDED,
    "inplace_contig_trace": DIVIDED,
    "inplace_dropout_pt2": WHOLE,  # its normalisation is by the statistics of each micro-batch
    "inputs_without_samples": DIVIDED,
    "inputs_without_samples_static": DIVIDED,
    "keras_masked_lstm_loop": DIVIDED,
    "keras_two_inputs_unk": {**DIVIDED, "flags": ["--same-symbol", "unk__13=unk__14", "--same-symbol", "unk__13=unk__15"]},
    "layer_in_two_branches_dynamo": WHOLE,
    "loss_over_whole_batch_dice": {**WHOLE, "undivided": ["node_div", "%sum_1 and %sum_2", *STAYS]},
    "loss_over_whole_batch_infonce": {**WHOLE, "undivided": ["node_matmul", *STAYS]},
    "loss_over_whole_batch_moe": {**WHOLE, "undivided": ["node_mul_21", "%mean_1 and %mean_2", *STAYS]},
    "loss_term_without_samples_pt2": DIVIDED,
    "loss_term_without_samples_zero": DIVIDED,
    "loss_triplet_pt2": DIVIDED,
    "mask3_pt2": DIVIDED,
    "mean_for_the_log_pt2": DIVIDED,
    "mean_of_stacked_losses_pt2": DIVIDED,
    "merged_zero_biases_dynamo": DIVIDED,
    "mqa_pt2": DIVIDED,
    "one_head_legacy": DIVIDED,
    "optimum_merged_decoder": {**DIVIDED, "flags": ["--input-value", "use_cache_branch=false"]},
    "own_index_mask_dynamo": {**WHOLE, "undivided": ["node_GatherND_31", *STAYS]},
    "paddle_constant_weights": {**DIVIDED, "flags": ["--train", "*"]},
    "qdq_int8_weights": {"refuses": ["model.onnx", "there is nothing to train", "integers read by DequantizeLinear"]},
    "qdq_int8_weights_last_layer_float": {**DIVIDED, "gradients": False, "says": ["warning: ", "integers read by DequantizeLinear"]},
    "rotary_tables_no_metadata": DIVIDED,
    "samples_on_axis_1": DIVIDED,
    "samples_on_axis_1_fixed_length": DIVIDED,
    "sdpa5_pt2": DIVIDED,
    "shifted_padded_labels_pt2": DIVIDED,
    "single_number_parameters": {**DIVIDED, "models": ["model.onnx", "model.pt", "model.pt2"]},
    "single_number_parameters_legacy": {**DIVIDED, "says": ["the exporter computed 'onnx::Sigmoid_60' is 'gate': it, negated"]},
    "sklearn_mlp_zipmap": DIVIDED,
    "slice_to_huge_end": DIVIDED,
    "spectral_norm_buffers": DIVIDED,
    "spectral_norm_buffers_dynamo": {**DIVIDED, "models": ["model.onnx", "model.pt2"]},
    "squeeze_symbolic_axis": {**DIVIDED, "says": ["note: requires ", "(node '/Squeeze')"]},
    "token_types_legacy": DIVIDED,
    "two_slices_trace": DIVIDED,
    "use_twice_pt2": DIVIDED,
    "use_twice_trace": DIVIDED,
    "view_batch_legacy": DIVIDED,
    "weight_used_raw_and_folded": DIVIDED,
    "weight_used_raw_and_folded_abs": DIVIDED,
    "zero_plus_loss_pt2": DIVIDED,
}


def reports():
    models = programs.shared_models()
    folder = models.parent / "reports" if models else None
    return folder if folder and folder.is_dir() else None


class Reports(programs.ProgramTest):
    def test_every_folder_has_a_row(self):
        self.assertEqual(sorted(path.name for path in reports().iterdir() if path.is_dir()), sorted(REPORTS))

    def judge(self, name):
        row, folder = REPORTS[name], reports() / name
        for model in row.get("models", [path.name for path in folder.iterdir() if path.stem == "model"]):
            with self.subTest(model=model):
                self.judge_model([folder, "--model", model, *row.get("flags", [])], row)

    def judge_model(self, command, row):
        if "refuses" in row:
            self.refuse(DIAGNOSTICS, row["refuses"], "rannc-check", *command)
            return
        done = self.run_program("rannc-check", *command, "--stages", "1,2", "--micro-batches", row["micro_batches"], "--summary=json")
        runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        differs = row.get("differs", False)
        self.assertEqual(done.returncode, DIAGNOSTICS if differs else 0, done.stdout + done.stderr)
        self.assertEqual(len(runs), 2 * len(row["micro_batches"].split(",")), done.stdout)
        for run in runs:
            self.assertEqual(run["ok"], not differs, run["failures"])
            self.assertEqual(run["compared_gradients"] > 0, row.get("gradients", True))
        for part in row.get("says", []):
            self.assertIn(part, done.stderr)
        if "undivided" in row:
            self.refuse(DIAGNOSTICS, row["undivided"], "rannc-check", *command, "--micro-batches", 2)


def test_of(name):
    return lambda self: self.judge(name)


for report in REPORTS:
    setattr(Reports, f"test_{report}", test_of(report))


if __name__ == "__main__":
    if reports() is None:
        print("skipped: no folder of reports; RANNC_SHARED_DIR names the one that holds data/reports, else ../shared beside the clone")
        sys.exit(programs.SKIPPED)
    programs.main()

"""Plants one violation per rule of tools/repository/check-labels and expects that rule to name it."""
import unittest

from planted import PlantedTest

RULES = "# Rules\n| G | graphs | `ir/graph/verify_graph.cc` |\n| P | plans | `ir/plan/verify_plan.cc` |\n| rule | what |\n|---|---|\n| G1 | a value has one producer |\n| P3 | an edge carries it |\n"
REQUIREMENTS = "| id | what |\n|---|---|\n| R1 | reads models |\n| N8 | text |\n| P3 | later |\n## Still to come\nP3\n"


class CheckLabels(PlantedTest):
    CHECK = "check-labels"
    CLEAN = {
        "ir/rules.md": RULES,
        "ir/graph/verify_graph.cc": 'report("G1", "two producers");\n',
        "ir/plan/verify_plan.cc": 'report("P3", "not carried");\n',
        "tests/ir/verify_test.cc": "TEST(VerifyGraph, G1_TwoProducers) {}\nTEST_F(VerifyPlan,\n       RejectsP3) {}\n",
        "tests/requirements.md": REQUIREMENTS,
        "tests/ir/CMakeLists.txt": "rannc_test(a SOURCES a.cc LABELS R1 N8 TIER full)\n",
    }

    def test_clean_tree(self):
        self.expect_green({})

    def test_K1_rule_that_nothing_reports(self):
        self.expect_red({"ir/plan/verify_plan.cc": "// P3 is checked elsewhere\n"}, "K1", "P3")

    def test_K1_no_table(self):
        self.expect_red({"ir/rules.md": "# Rules\n"}, "K1")

    def test_K2_unlisted_label(self):
        self.expect_red({"ir/graph/verify_graph.cc": 'report("G1", "two");\nreport("G7", "deadlock");\n'}, "K2", "verify_graph.cc:2", "G7")

    def test_K3_rule_without_a_test(self):
        spoiled = "TEST(VerifyGraph, G1_TwoProducers) {}\nTEST(VerifyPlan, P31_Other) {}\nTEST(VerifyPlan, MP3) {}\n"
        self.expect_red({"tests/ir/verify_test.cc": spoiled}, "K3", "P3")

    def test_K3_a_file_under_invalid_counts(self):
        only_graph = "TEST(VerifyGraph, G1_TwoProducers) {}\n"
        self.expect_green({"tests/ir/verify_test.cc": only_graph, "tests/ir/invalid/P3_not_carried.rir": ""})

    def test_K3_a_label_that_a_test_expects_counts(self):
        expects = 'TEST(VerifyGraph, G1_TwoProducers) {}\nTEST(VerifyPlan, EachRule) { expect_broken("P3"); }\n'
        self.expect_green({"tests/ir/verify_test.cc": expects})

    def test_K6_a_file_that_the_checker_does_not_name(self):
        self.expect_red({"partition/planner.cc": 'report("P3", "other");\n'}, "K6", "partition/planner.cc:1", "P3")

    def test_K6_a_file_that_reports_nothing(self):
        rules = RULES.replace("`ir/plan/verify_plan.cc`", "`ir/plan/verify_plan.cc`, `ir/plan/plan.cc`")
        self.expect_red({"ir/rules.md": rules}, "K6", "ir/plan/plan.cc")

    def test_K6_one_prefix_for_two_checkers(self):
        self.expect_red({"partition/rules.md": "| P | stage plans | `partition/planner.cc` |\n"}, "K6", "prefix P")

    def test_K4_unknown_requirement(self):
        planted = "\nrannc_test(a SOURCES R9.cc LABELS R1 N8\n  R77 TIER full)\n"
        self.expect_red({"tests/ir/CMakeLists.txt": planted}, "K4", "R77", "CMakeLists.txt:2")

    def test_K4_no_list(self):
        self.expect_red({"tests/requirements.md": "none\n"}, "K4")

    def test_K5_row_that_nothing_carries(self):
        self.expect_red({"tests/ir/CMakeLists.txt": "rannc_test(a SOURCES N8.cc LABELS R1)\n"}, "K5", "N8")
        self.expect_red({"tests/requirements.md": REQUIREMENTS.replace("\nP3\n", "\n")}, "K5", "P3 is carried by no test")

    def test_K5_list_that_did_not_shrink(self):
        planted = "rannc_test(a SOURCES a.cc LABELS R1 N8)\nrannc_test(b SOURCES b.cc LABELS P3)\n"
        self.expect_red({"tests/ir/CMakeLists.txt": planted}, "K5", "CMakeLists.txt:2", "P3")

    def test_K5_list_of_what_is_no_row(self):
        self.expect_red({"tests/requirements.md": REQUIREMENTS + "T9\n"}, "K5", "T9")


if __name__ == "__main__":
    unittest.main()

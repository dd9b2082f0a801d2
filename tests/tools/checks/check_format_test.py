"""Plants one violation per rule of tools/repository/check-format and expects that rule to name it."""
import unittest

from planted import PlantedTest


class CheckFormat(PlantedTest):
    CHECK = "check-format"
    CLEAN = {"ir/graph/graph.cc": "int main() { return 0; }\n"}

    def test_clean_tree(self):
        self.expect_green({})

    def test_F1_a_file_that_would_change(self):
        self.expect_red({"tests/ir/graph/graph_test.cc": "int main()  { return 0; }\n"}, "F1", "tests/ir/graph/graph_test.cc:1")

    def test_F1_includes_out_of_order(self):
        planted = '#include "ir/graph/type.h"\n#include "ir/graph/graph.h"\n'
        self.expect_red({"ir/graph/graph.h": planted}, "F1", "ir/graph/graph.h:1")


if __name__ == "__main__":
    unittest.main()

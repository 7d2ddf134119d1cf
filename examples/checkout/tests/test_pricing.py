import unittest

from pricing import checkout_total


class TestCheckoutTotal(unittest.TestCase):
    def test_total_without_a_discount_code(self):
        self.assertEqual(checkout_total([(12.50, 2), (5.00, 3)]), 40.00)

    def test_discount_code_takes_a_percentage_off(self):
        self.assertEqual(checkout_total([(25.00, 2)], "WELCOME10"), 45.00)


if __name__ == "__main__":
    unittest.main()

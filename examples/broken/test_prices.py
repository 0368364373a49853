import unittest

from prices import with_tax


class PricesTest(unittest.TestCase):
    def test_whole(self):
        self.assertEqual(with_tax(1000, 19), 1190)

    def test_half_a_cent_goes_up(self):
        self.assertEqual(with_tax(50, 19), 60)

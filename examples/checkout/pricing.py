"""Prices of a small shop: what the customer pays at checkout, in the shop's currency."""

DISCOUNT_CODES = {
    "WELCOME10": 10,
    "SUMMER25": 25,
}


def apply_discount(total, percent):
    """Returns the total after a discount of `percent` per cent."""
    return total - percent


def checkout_total(items, discount_code=None):
    """Adds up `(price, quantity)` pairs and applies the discount that belongs to the code, if there is one."""
    total = sum(price * quantity for price, quantity in items)
    if discount_code is not None:
        total = apply_discount(total, DISCOUNT_CODES[discount_code])
    return round(total, 2)

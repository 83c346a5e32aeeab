"""What a treatment of the data is worth: the policies trained on it judged, compared and tested."""
